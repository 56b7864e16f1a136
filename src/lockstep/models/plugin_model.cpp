#include "lockstep/models/plugin_model.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>

#include "lockstep/base/error.h"
#include "lockstep/models/generator_scope.h"
#include "lockstep/models/model.h"
#include "lockstep/models/network_plugin.h"
#include "lockstep/models/traced_model.h"
#include "lockstep/replica/precision.h"
#include "lockstep/replica/torch_error.h"

namespace lockstep::models {
namespace {

using network_file::NetworkFile;

constexpr const char* kEntry = "lockstep_networks";
constexpr const char* kHeader = "lockstep/models/network_plugin.h";

/// The parts of "./libmine.so:mine".
struct PluginName {
  std::string all;
  std::string file;
  std::string network;
};

PluginName parse_name(const std::string& name) {
  const size_t colon = name.find(".so:");
  if (colon == std::string::npos) return {name, name, ""};
  return {name, name.substr(0, colon + 3), name.substr(colon + 4)};
}

ConfigError refused_plugin(const PluginName& name, const std::string& what, const std::string& advice) {
  return ConfigError(fmt::format("--model {}: {}", name.all, what), advice);
}

/// The table of a shared object, which stays open.
const plugin::Table& open_table(const PluginName& name) {
  const std::string advice = fmt::format(
      "Build it with the headers and libraries of LibTorch {}.{}; docs/your-network.md has the command.",
      TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR);
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(name.file, error);
  if (!std::filesystem::is_regular_file(path, error)) {
    throw refused_plugin(name, fmt::format("there is no file {}", name.file),
                         "Name a shared object and a network in it: ./libmine.so:mine");
  }
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    throw refused_plugin(name, fmt::format("it cannot be loaded: {}", ::dlerror()), advice);
  const auto call = reinterpret_cast<const plugin::Table* (*)()>(::dlsym(handle, kEntry));
  const plugin::Table* table = call == nullptr ? nullptr : call();
  if (table == nullptr) {
    throw refused_plugin(
        name, fmt::format("{} offers no networks: it has no symbol {}", name.file, kEntry),
        fmt::format("Include {} and name each network with LOCKSTEP_MODEL(name, create).", kHeader));
  }
  if (table->version != plugin::kNetworkPluginVersion || table->torch_major != TORCH_VERSION_MAJOR ||
      table->torch_minor != TORCH_VERSION_MINOR) {
    throw refused_plugin(
        name,
        fmt::format("{} was built with version {} of {} and LibTorch {}.{}, and this lockstep takes version "
                    "{} and LibTorch {}.{}",
                    name.file, table->version, kHeader, table->torch_major, table->torch_minor,
                    plugin::kNetworkPluginVersion, TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR),
        advice);
  }
  return *table;
}

const plugin::Entry& find_entry(const PluginName& name) {
  std::vector<std::string> there;
  for (const plugin::Entry* entry = open_table(name).first; entry != nullptr; entry = entry->next) {
    if (entry->name == name.network) return *entry;
    there.emplace_back(entry->name);
  }
  std::ranges::sort(there);
  const std::string names = fmt::format("{}", fmt::join(there, ", "));
  const std::string what = name.network.empty()
                               ? fmt::format("which of its networks is wanted? It has {}", names)
                               : fmt::format("it has no network '{}'; it has {}", name.network, names);
  throw refused_plugin(name, what, there.empty() ? "" : fmt::format("Use {}:{}", name.file, there.front()));
}

/// A network with the initial values of a seed.
plugin::Network create_network(const PluginName& name, uint64_t seed) {
  const plugin::Entry& entry = find_entry(name);
  const GeneratorScope random(at::kCPU, seed);
  plugin::Network network;
  try {
    network = entry.create();
    if (network.module != nullptr) network.module->train();
  } catch (const std::exception& error) {
    throw refused_plugin(name, fmt::format("it could not be built: {}", replica::first_line(error)), "");
  }
  return network;
}

/// The state of a module in its order: parameters that are trained, and all other tensors. A tensor that
/// several modules share is listed once.
struct ModuleTensors {
  std::vector<replica::NamedTensor> trained;
  std::vector<replica::NamedTensor> others;
};

ModuleTensors tensors_of(const torch::nn::Module& module) {
  ModuleTensors tensors;
  std::set<const void*> known;
  for (const auto& parameter : module.named_parameters()) {
    if (!known.insert(parameter.value().unsafeGetTensorImpl()).second) continue;
    auto& list = parameter.value().requires_grad() ? tensors.trained : tensors.others;
    list.push_back({parameter.key(), parameter.value()});
  }
  for (const auto& buffer : module.named_buffers()) {
    if (known.insert(buffer.value().unsafeGetTensorImpl()).second)
      tensors.others.push_back({buffer.key(), buffer.value()});
  }
  return tensors;
}

bool has_images(const plugin::Network& network, const ModuleTensors& tensors) {
  return std::ranges::any_of(
             network.inputs,
             [](const auto& input) { return input.shape.size() == 3 && at::isFloatingType(input.type); }) &&
         std::ranges::any_of(tensors.trained, [](const auto& tensor) { return tensor.value.dim() == 4; });
}

network_file::Type type_of(const PluginName& name, at::ScalarType type) {
  using network_file::Type;
  for (const Type known : {Type::kFloat32, Type::kFloat64, Type::kFloat16, Type::kBfloat16, Type::kInt64,
                           Type::kInt32, Type::kInt16, Type::kInt8, Type::kUint8, Type::kBool}) {
    if (scalar_type(known) == type) return known;
  }
  throw refused_plugin(name, fmt::format("it has a tensor of type {}", c10::toString(type)), "");
}

std::vector<network_file::Sample> samples_of(const PluginName& name,
                                             const std::vector<plugin::Sample>& samples, bool channels_last) {
  std::vector<network_file::Sample> described;
  for (const plugin::Sample& sample : samples) {
    if (std::ranges::any_of(sample.shape, [](int64_t size) { return size < 1; }) ||
        sample.low >= sample.high || sample.deviation < 0) {
      throw refused_plugin(name, fmt::format("'{}' has no possible values", sample.name),
                           "Sizes are at least 1, and `low` is less than `high`.");
    }
    described.push_back(
        {.name = sample.name,
         .shape = sample.shape,
         .type = type_of(name, sample.type),
         .channels_last = channels_last && sample.shape.size() == 3 && at::isFloatingType(sample.type),
         .mean = sample.mean,
         .deviation = sample.deviation,
         .low = sample.low,
         .high = sample.high});
  }
  return described;
}

network_file::Tensor described_tensor(const PluginName& name, const replica::NamedTensor& tensor) {
  return {.name = tensor.name,
          .shape = tensor.value.sizes().vec(),
          .strides = tensor.value.strides().vec(),
          .type = type_of(name, tensor.value.scalar_type()),
          .bytes = tensor.value.nbytes(),
          .changes = true};
}

/// Throws ConfigError for a network that cannot be trained.
void check_network(const PluginName& name, const plugin::Network& network) {
  const auto refuse = [&](const std::string& what) { throw refused_plugin(name, what, ""); };
  if (network.module == nullptr) refuse("it has no module");
  if (network.loss == nullptr) refuse("it has no loss");
  if (network.inputs.empty()) refuse("it has no inputs");
  if (network.default_batch < 1 || network.units_per_sample < 1 || network.multiply_adds < 0)
    refuse("its default batch, units or multiply-adds are out of range");
  const bool is_word = std::ranges::all_of(network.unit, [](char c) { return c >= 'a' && c <= 'z'; });
  if (!is_word || network.unit.empty() || network.unit.size() > 20)
    refuse(fmt::format("its unit '{}' is not a word of up to 20 small letters", network.unit));
  const ModuleTensors tensors = tensors_of(*network.module);
  if (tensors.trained.empty()) refuse("its module has no parameter that requires a gradient");
  for (const auto& [parameter, value] : tensors.trained) {
    if (value.scalar_type() != at::kFloat || !value.is_cpu())
      refuse(fmt::format("its parameter '{}' is not an fp32 tensor on the CPU", parameter));
  }
}

NetworkFile describe_network(const PluginName& name, const plugin::Network& network) {
  check_network(name, network);
  const ModuleTensors tensors = tensors_of(*network.module);
  NetworkFile file{.path = name.all, .name = name.network, .origin = "a network of a plugin"};
  file.torch_version = TORCH_VERSION;
  file.unit = network.unit;
  file.units_per_sample = network.units_per_sample;
  file.multiply_adds = network.multiply_adds;
  file.channels_last = network.channels_last && has_images(network, tensors);
  for (const auto& tensor : tensors.trained) file.parameters.push_back(described_tensor(name, tensor));
  for (const auto& tensor : tensors.others) file.buffers.push_back(described_tensor(name, tensor));
  file.inputs = samples_of(name, network.inputs, file.channels_last);
  file.targets = samples_of(name, network.targets, file.channels_last);
  return file;
}

/// Loss of the samples, inputs first. Throws Error that says which network failed.
at::Tensor loss_of(const plugin::Network& network, const NetworkFile& file, const plugin::Tensors& samples) {
  const auto targets = samples.begin() + static_cast<std::ptrdiff_t>(network.inputs.size());
  at::Tensor loss;
  try {
    loss = network.loss({samples.begin(), targets}, {targets, samples.end()});
  } catch (const std::exception& error) {
    throw Error(fmt::format("the forward pass of {} failed: {}", file.path, replica::first_line(error)));
  }
  if (!loss.defined() || loss.numel() != 1 || !at::isFloatingType(loss.scalar_type())) {
    throw Error(fmt::format("the loss of {} is not one number: it has the shape [{}]", file.path,
                            loss.defined() ? fmt::format("{}", fmt::join(loss.sizes(), ", ")) : "none"));
  }
  return loss.reshape({}).to(at::kFloat);
}

/// Runs two samples forward. Returns whether that draws random numbers.
bool try_network(const PluginName& name, const plugin::Network& network, const NetworkFile& file) {
  const at::NoGradGuard no_grad;
  plugin::Tensors samples;
  for (const auto* described : {&file.inputs, &file.targets}) {
    for (const network_file::Sample& sample : *described) {
      // Two, because batch normalization of a single value is refused.
      std::vector<int64_t> shape{2};
      shape.insert(shape.end(), sample.shape.begin(), sample.shape.end());
      const at::ScalarType type = scalar_type(sample.type);
      const double value = at::isFloatingType(type) ? sample.mean : static_cast<double>(sample.low);
      samples.push_back(at::full(shape, value, type));
    }
  }
  const GeneratorScope random(at::kCPU, 1);
  const at::Tensor before = random.generator().get_state();
  try {
    loss_of(network, file, samples);
  } catch (const Error& error) {
    throw refused_plugin(name, error.what(), "");
  }
  return !random.generator().get_state().equal(before);
}

class PluginModel final : public Model, public WholeStep {
 public:
  PluginModel(std::shared_ptr<const NetworkFile> file, plugin::Network network, const ModelOptions& options)
      : Model(replica::Parameters(options.seed, file->channels_last ? at::MemoryFormat::ChannelsLast
                                                                    : at::MemoryFormat::Contiguous)),
        file_(std::move(file)),
        network_(std::move(network)),
        precision_(replica::parse_precision(options.precision)) {
    const at::NoGradGuard no_grad;
    const ModuleTensors tensors = tensors_of(*network_.module);
    for (const auto& [name, value] : tensors.trained) {
      lay_out(value);
      parameters_.add(name, value);
    }
    for (const auto& [name, value] : tensors.others) parameters_.add_buffer(name, value);
  }

  WholeStep* whole_step() override { return this; }

  Output forward(const at::Tensor& /*images*/, const kernels::Context& /*context*/) override {
    throw Error(file_->path + " has a loss of its own, and no forward pass without it");
  }

  at::Tensor run(const std::vector<at::Tensor>& samples, const kernels::Context& context,
                 const at::Tensor& scale, const std::function<void()>& forward_done) override {
    std::optional<GeneratorScope> random;
    if (file_->draws_random_numbers) random.emplace(scale.device(), step_seed(context));
    at::Tensor loss;
    {
      const replica::AutocastScope autocast(precision_, scale.device().type());
      loss = loss_of(network_, *file_, samples);
    }
    forward_done();
    loss.backward(scale);
    return loss.detach();
  }

 private:
  void lay_out(const at::Tensor& value) const {
    if (value.dim() != 4 || !file_->channels_last) return;
    // contiguous() would keep the strides of a 1x1 kernel, by which kernels choose their layout.
    value.set_data(at::empty_like(value, value.options(), at::MemoryFormat::ChannelsLast).copy_(value));
  }

  std::shared_ptr<const NetworkFile> file_;
  plugin::Network network_;
  replica::Precision precision_;
};

}  // namespace

bool is_plugin_network(const std::string& name) {
  return name.ends_with(".so") || name.find(".so:") != std::string::npos;
}

ModelInfo plugin_network(const std::string& name) {
  const PluginName parsed = parse_name(name);
  const plugin::Network network = create_network(parsed, 1);
  NetworkFile description = describe_network(parsed, network);
  description.draws_random_numbers = try_network(parsed, network, description);
  auto file = std::make_shared<const NetworkFile>(std::move(description));
  return described_network(file, network.default_batch, name,
                           [parsed, file](const ModelOptions& options) -> std::unique_ptr<Model> {
                             plugin::Network own = create_network(parsed, options.seed.value_or(1));
                             return std::make_unique<PluginModel>(file, std::move(own), options);
                           });
}

}  // namespace lockstep::models
