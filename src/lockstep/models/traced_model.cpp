#include "lockstep/models/traced_model.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/max.h>
#include <ATen/ops/min.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include "lockstep/base/error.h"
#include "lockstep/models/native_runner.h"
#include "lockstep/models/network_archive.h"
#include "lockstep/models/whole_step.h"

namespace lockstep::models {
namespace {

using network_file::NetworkFile;
using network_file::Tensor;

/// Hands a gradient to a parameter as a backward pass does. Autograd's engine takes ten times as long as what
/// it does here, and copies the gradient; it is needed where a hook asks for the pass that it is part of, as
/// DDP's Reducer does.
void accumulate(const at::Tensor& parameter, at::Tensor gradient) {
  const std::shared_ptr<torch::autograd::Node> accumulator =
      torch::autograd::impl::grad_accumulator(parameter);
  if (!accumulator->post_hooks().empty()) {
    torch::autograd::Engine::get_default_engine().execute({torch::autograd::impl::gradient_edge(parameter)},
                                                          {std::move(gradient)}, /*keep_graph=*/false,
                                                          /*create_graph=*/false, /*accumulate_grad=*/true);
    return;
  }
  torch::autograd::variable_list gradients;
  gradients.push_back(std::move(gradient));
  for (const auto& hook : accumulator->tensor_pre_hooks()) gradients = (*hook)(gradients);
  (*accumulator)(std::move(gradients));
}

class TracedModel final : public Model, public WholeStep {
 public:
  TracedModel(std::shared_ptr<const NetworkFile> file, const ModelOptions& options)
      : Model(replica::Parameters(options.seed, file->channels_last ? at::MemoryFormat::ChannelsLast
                                                                    : at::MemoryFormat::Contiguous)),
        file_(std::move(file)),
        runner_(file_->path, file_->graph(options.batch, options.precision, options.device).name) {
    load();
  }

  WholeStep* whole_step() override { return this; }

  Output forward(const at::Tensor& /*images*/, const kernels::Context& /*context*/) override {
    throw Error(file_->path + " has whole training steps only, no forward pass of its own");
  }

  at::Tensor run(const std::vector<at::Tensor>& samples, const kernels::Context& context,
                 const at::Tensor& scale, const std::function<void()>& forward_done) override {
    if (file_->draws_random_numbers) seed_step(context, scale.device());
    const std::vector<at::Tensor> parameters = parameters_.tensors();
    std::vector<at::Tensor> inputs = parameters;
    move_constants(scale.device());
    inputs.insert(inputs.end(), buffers_.begin(), buffers_.end());
    inputs.insert(inputs.end(), samples.begin(), samples.end());
    inputs.push_back(scale);
    const StepEvents events{.forward_done = forward_done,
                            .gradient_ready = [&](int64_t index, at::Tensor gradient) {
                              accumulate(parameters[static_cast<size_t>(index)], std::move(gradient));
                            }};
    const std::vector<at::Tensor> results = run_file(inputs, events, samples);
    const at::NoGradGuard no_grad;
    size_t next = 1 + parameters.size();
    for (const replica::NamedTensor& buffer : parameters_.buffers()) buffer.value.copy_(results[next++]);
    return results.front();
  }

 private:
  /// A failure is often a value that the network has no place for, which LibTorch does not name.
  std::vector<at::Tensor> run_file(const std::vector<at::Tensor>& inputs, const StepEvents& events,
                                   const std::vector<at::Tensor>& samples) {
    try {
      return runner_.run(inputs, events);
    } catch (const Error& error) {
      const std::string found = unexpected_values(samples);
      if (found.empty()) throw;
      throw Error(fmt::format("{}; {}", error.what(), found),
                  "Correct the data, or export the network again with the range that they have.");
    }
  }

  /// "input0 has values from 0 to 40, the file from 0 to 39"; empty where all are expected.
  std::string unexpected_values(const std::vector<at::Tensor>& samples) const {
    std::vector<network_file::Sample> described = file_->inputs;
    described.insert(described.end(), file_->targets.begin(), file_->targets.end());
    for (size_t i = 0; i < std::min(samples.size(), described.size()); ++i) {
      if (at::isFloatingType(samples[i].scalar_type())) continue;
      const at::Tensor values = samples[i].to(at::kLong);
      const auto least = values.min().item<int64_t>(), most = values.max().item<int64_t>();
      if (least >= described[i].low && most < described[i].high) continue;
      return fmt::format("{} has values from {} to {}, the file from {} to {}", described[i].name, least,
                         most, described[i].low, described[i].high - 1);
    }
    return "";
  }

  /// Moves the buffers that no step changes to where parameters() has moved all else.
  void move_constants(at::Device device) {
    for (at::Tensor& buffer : buffers_) {
      if (buffer.device() != device) buffer = buffer.to(device);
    }
  }

  void load() {
    std::vector<Tensor> tensors = file_->parameters;
    tensors.insert(tensors.end(), file_->buffers.begin(), file_->buffers.end());
    std::vector<char*> places;
    std::vector<at::Tensor> values;
    for (const Tensor& tensor : tensors) {
      values.push_back(at::empty_strided(tensor.shape, tensor.strides, scalar_type(tensor.type)));
      places.push_back(static_cast<char*>(values.back().mutable_data_ptr()));
    }
    read_values(*file_, tensors, places);
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (i < file_->parameters.size()) {
        parameters_.add(tensors[i].name, values[i]);
      } else {
        // A buffer that no step changes is a constant of the network, not a part of its state.
        if (tensors[i].changes) parameters_.add_buffer(tensors[i].name, values[i]);
        buffers_.push_back(values[i]);
      }
    }
  }

  std::shared_ptr<const NetworkFile> file_;
  NativeRunner runner_;
  /// All buffers in the file's order; those that change are shared with parameters_.
  std::vector<at::Tensor> buffers_;
};

}  // namespace

at::ScalarType scalar_type(network_file::Type type) {
  using network_file::Type;
  switch (type) {
    case Type::kFloat32:
      return at::kFloat;
    case Type::kFloat64:
      return at::kDouble;
    case Type::kFloat16:
      return at::kHalf;
    case Type::kBfloat16:
      return at::kBFloat16;
    case Type::kInt64:
      return at::kLong;
    case Type::kInt32:
      return at::kInt;
    case Type::kInt16:
      return at::kShort;
    case Type::kInt8:
      return at::kChar;
    case Type::kUint8:
      return at::kByte;
    case Type::kBool:
      break;
  }
  return at::kBool;
}

ModelInfo described_network(std::shared_ptr<const NetworkFile> file, int default_batch, std::string source,
                            std::function<std::unique_ptr<Model>(const ModelOptions& options)> create) {
  return {.parameters = file->parameter_count(),
          .parameter_tensors = static_cast<int64_t>(file->parameters.size()),
          .largest_parameter = file->largest_parameter(),
          .multiply_adds = file->multiply_adds,
          .channels = 0,
          .image_size = 0,
          .min_image_size = 0,
          .max_image_size = 0,
          .classes = 0,
          .default_batch = default_batch,
          .source = std::move(source),
          .create = std::move(create),
          .file = std::move(file)};
}

ModelInfo traced_network(const std::string& path) {
  auto file = std::make_shared<const NetworkFile>(read_network_file(path));
  return described_network(
      file, static_cast<int>(file->graphs.front().batch), file->name,
      [file](const ModelOptions& options) { return std::make_unique<TracedModel>(file, options); });
}

}  // namespace lockstep::models
