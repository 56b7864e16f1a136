#include "layers.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>

#include <fmt/format.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>

namespace lockstep::limit {
namespace {

const char* to_string(LayerKind kind) {
  switch (kind) {
    case LayerKind::kConvolution:
      return "conv";
    case LayerKind::kLinear:
      return "linear";
    case LayerKind::kMaxPool:
      return "max pool";
    case LayerKind::kAvgPool:
      return "avg pool";
    case LayerKind::kResponseNorm:
      return "response norm";
  }
  return "";
}

const char* to_string(LayerEnding ending) {
  switch (ending) {
    case LayerEnding::kNone:
      return "";
    case LayerEnding::kRelu:
      return " + relu";
    case LayerEnding::kNorm:
      return " + norm";
    case LayerEnding::kNormRelu:
      return " + norm + relu";
    case LayerEnding::kNormAdd:
      return " + norm + add";
    case LayerEnding::kNormAddRelu:
      return " + norm + add + relu";
  }
  return "";
}

/// The operations that begin a layer; lockstep's networks take a power only to normalize responses.
const std::map<std::string_view, LayerKind>& beginnings() {
  static const std::map<std::string_view, LayerKind> kAll{
      {"aten::conv2d", LayerKind::kConvolution},          {"aten::linear", LayerKind::kLinear},
      {"aten::max_pool2d", LayerKind::kMaxPool},          {"aten::avg_pool2d", LayerKind::kAvgPool},
      {"aten::adaptive_avg_pool2d", LayerKind::kAvgPool}, {"aten::pow", LayerKind::kResponseNorm}};
  return kAll;
}

/// The ending of a layer with one more operation behind it.
LayerEnding followed_by(LayerEnding ending, std::string_view operation) {
  if (operation == "aten::batch_norm") return LayerEnding::kNorm;
  if (operation == "aten::add_") return LayerEnding::kNormAdd;
  if (ending == LayerEnding::kNone) return LayerEnding::kRelu;
  return ending == LayerEnding::kNorm ? LayerEnding::kNormRelu : LayerEnding::kNormAddRelu;
}

/// Lists layers as LibTorch's operations on this thread begin and end, from construction to destruction.
class Listener {
 public:
  explicit Listener(const replica::Parameters& parameters) : parameters_(parameters) {
    current() = this;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&Listener::begin, &Listener::end)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  ~Listener() { at::removeCallback(handle_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  std::vector<Layer> take() { return std::move(layers_); }

 private:
  /// The layer that an operation belongs to, from its beginning to its end.
  struct Operation : at::ObserverContext {
    explicit Operation(size_t layer_) : layer(layer_) {}
    size_t layer;
  };

  static Listener*& current() {
    static thread_local Listener* listener = nullptr;
    return listener;
  }

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& operation) {
    return current()->begins(operation.name(), operation.inputs());
  }
  static void end(const at::RecordFunction& operation, at::ObserverContext* context) {
    if (context != nullptr) {
      current()->ends(static_cast<const Operation&>(*context).layer, operation.outputs().front().toTensor());
    }
  }

  std::unique_ptr<at::ObserverContext> begins(std::string_view name, c10::ArrayRef<const at::IValue> inputs) {
    if (const auto kind = beginnings().find(name); kind != beginnings().end()) {
      layers_.push_back(layer_of(name, kind->second, inputs));
      return std::make_unique<Operation>(layers_.size() - 1);
    }
    if (name != "aten::batch_norm" && name != "aten::add_" && name != "aten::relu_") return nullptr;
    const auto layer = layer_of_.find(inputs[0].toTensor().storage().unsafeGetStorageImpl());
    if (layer == layer_of_.end()) return nullptr;
    layers_[layer->second].ending = followed_by(layers_[layer->second].ending, name);
    return std::make_unique<Operation>(layer->second);
  }

  void ends(size_t layer, const at::Tensor& out) {
    layers_[layer].out = out.sizes().vec();
    layer_of_[out.storage().unsafeGetStorageImpl()] = layer;
    kept_.push_back(out);
  }

  Layer layer_of(std::string_view operation, LayerKind kind, c10::ArrayRef<const at::IValue> inputs) const {
    const at::Tensor& x = inputs[0].toTensor();
    Layer layer{.kind = kind, .in = x.sizes().vec(), .out = {}, .input_learns = x.requires_grad()};
    if (kind == LayerKind::kConvolution || kind == LayerKind::kLinear) {
      layer.name = name_of(inputs[1].toTensor());
      layer.bias = inputs[2].isTensor() && inputs[2].toTensor().defined();
    } else {
      const auto of_kind = std::ranges::count(layers_, kind, &Layer::kind);
      layer.name = fmt::format("{}{}", to_string(kind), of_kind + 1);
      std::ranges::replace(layer.name, ' ', '_');
    }
    if (operation == "aten::conv2d") {
      const at::Tensor& weight = inputs[1].toTensor();
      const std::vector<int64_t> padding = inputs[4].toIntVector();
      layer.window = {weight.size(2),  weight.size(3), inputs[3].toIntVector().front(),
                      padding.front(), padding.back(), inputs[6].toInt()};
    } else if (operation.ends_with("_pool2d")) {
      layer.window = {0, 0, 0, 0, 0};
    }
    if (operation == "aten::max_pool2d" || operation == "aten::avg_pool2d") {
      const int64_t kernel = inputs[1].toIntVector().front();
      const int64_t padding = inputs[3].toIntVector().front();
      layer.window = {kernel, kernel, inputs[2].toIntVector().front(), padding, padding};
    }
    return layer;
  }

  std::string name_of(const at::Tensor& weight) const {
    const auto found = std::ranges::find_if(
        parameters_.trainable(),
        [&](const replica::NamedTensor& parameter) { return parameter.value.is_same(weight); });
    return found == parameters_.trainable().end() ? "" : found->name.substr(0, found->name.rfind('.'));
  }

  const replica::Parameters& parameters_;
  at::CallbackHandle handle_ = 0;
  std::vector<Layer> layers_;
  /// The layer whose result is in a storage.
  std::map<const void*, size_t> layer_of_;
  /// Keeps these storages, which would be used again for other results.
  std::vector<at::Tensor> kept_;
};

int64_t product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

int64_t Layer::multiply_adds() const {
  if (kind == LayerKind::kLinear) return product(out) * in[1];
  if (kind != LayerKind::kConvolution) return 0;
  return product(out) * (in[1] / window.groups) * window.kernel_height * window.kernel_width;
}

std::string Layer::text() const {
  if (kind == LayerKind::kLinear) return fmt::format("linear {}->{}{}", in[1], out[1], to_string(ending));
  std::string text = to_string(kind);
  if (window.kernel_height > 0 && kind != LayerKind::kResponseNorm) {
    text += fmt::format(" {}x{}", window.kernel_height, window.kernel_width);
    if (window.stride > 1) text += fmt::format("/{}", window.stride);
    if (window.groups > 1) text += fmt::format(" in {}", window.groups);
  }
  text += in[1] == out[1] ? fmt::format(" {}", in[1]) : fmt::format(" {}->{}", in[1], out[1]);
  return text + fmt::format(" {}x{}{}", in[2], in[3], to_string(ending));
}

bool has_norm(LayerEnding ending) {
  return ending != LayerEnding::kNone && ending != LayerEnding::kRelu;
}

std::vector<Layer> list_layers(const models::ModelInfo& info, int64_t image_size, int64_t batch) {
  // Layers record whether their input needs a gradient.
  const at::AutoGradMode learning(true);
  const std::unique_ptr<models::Model> model = info.create({.seed = std::nullopt});
  Listener listener(model->parameters());
  model->forward(at::zeros({1, info.channels, image_size, image_size}), kernels::Context());
  // Layers treat every image alike, so one image has the shapes of any batch.
  std::vector<Layer> layers = listener.take();
  for (Layer& layer : layers) layer.in[0] = layer.out[0] = batch;
  return layers;
}

}  // namespace lockstep::limit
