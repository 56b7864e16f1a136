#include "lockstep/models/traced_model.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/max.h>
#include <ATen/ops/min.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Flags.h>
#include <torch/csrc/api/include/torch/nativert/ModelRunnerHandle.h>
#include <torch/library.h>

#include "lockstep/base/error.h"
#include "lockstep/models/accumulate.h"
#include "lockstep/models/generator_scope.h"
#include "lockstep/models/model.h"
#include "lockstep/models/network_archive.h"
#include "lockstep/replica/random.h"
#include "lockstep/replica/torch_error.h"

// The least level that LibTorch logs: 0 to 3, information to fatal.
C10_DECLARE_int(caffe2_log_level);

namespace lockstep::models {
namespace {

using network_file::NetworkFile;
using network_file::Tensor;

/// Callbacks from a traced step while it runs, in its thread.
struct StepEvents {
  /// The forward pass is over.
  std::function<void()> forward_done;
  /// The gradient of parameter `index` is final. The callee may keep the tensor, which belongs to it alone.
  std::function<void(int64_t index, at::Tensor gradient)> gradient_ready;
};

/// A run in this thread.
struct Running {
  const StepEvents& events;
  /// An exception of a callback, which must not pass through LibTorch's executor.
  std::exception_ptr failure;

  template <typename Call>
  void guarded(Call call) {
    if (failure) return;
    // The graph runs in inference mode, whose tensors may not be changed later.
    const c10::InferenceMode as_ever(false);
    try {
      call();
    } catch (...) {
      failure = std::current_exception();
    }
  }
};

thread_local Running* running = nullptr;

at::Tensor forward_done(const at::Tensor& loss) {
  if (running != nullptr) running->guarded([] { running->events.forward_done(); });
  return loss;
}

/// A tensor object of the same memory, which belongs to the caller alone: autograd then keeps it without a
/// copy. The graph uses the memory no more (python/lockstep/tracing.py copies a gradient that it uses again).
at::Tensor own_tensor(const at::Tensor& tensor) {
  auto own = at::detail::make_tensor<at::TensorImpl>(
      c10::Storage(tensor.storage()),
      c10::DispatchKeySet(tensor.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU), tensor.dtype());
  own.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  return own;
}

/// Returns an empty tensor in place of the gradient, so that its memory is free when the callee drops it.
at::Tensor grad_ready(const at::Tensor& gradient, int64_t index) {
  if (running != nullptr) {
    running->guarded([&] {
      const at::NoGradGuard no_grad;
      running->events.gradient_ready(index, own_tensor(gradient));
    });
  }
  static const at::Tensor nothing = at::empty({0});
  return nothing;
}

at::Tensor announce_uses(const at::Tensor& parameter, const std::vector<at::Tensor>& others) {
  std::vector<c10::IValue> all(others.begin(), others.end());
  all.emplace_back(parameter);
  RECORD_FUNCTION("lockstep::uses", all);
  return parameter;
}

/// The operators of python/lockstep/operators.py, which mark places in a traced step.
void define_operators() {
  // Never freed, and never unreachable, which would be a leak to the address sanitizer.
  [[gnu::used]] static torch::Library* const operators = [] {
    auto* library = new torch::Library(torch::Library::DEF, "lockstep", std::nullopt, __FILE__, __LINE__);
    library->def("forward_done(Tensor loss) -> Tensor");
    library->def("grad_ready(Tensor gradient, int index) -> Tensor");
    library->def("uses(Tensor parameter, Tensor[] others) -> Tensor");
    library->impl("uses", c10::DispatchKey::CompositeExplicitAutograd, &announce_uses);
    library->impl("forward_done", c10::DispatchKey::CompositeExplicitAutograd, &forward_done);
    library->impl("grad_ready", c10::DispatchKey::CompositeExplicitAutograd, &grad_ready);
    return library;
  }();
}

constexpr int kErrorsOnly = 2;

/// Runs one graph of a network's file with LibTorch's NativeRT. Not thread-safe; objects in several threads
/// are independent.
class NativeRunner {
 public:
  /// Throws ConfigError, naming the file, if LibTorch cannot run the graph.
  NativeRunner(const std::string& path, const std::string& graph) : path_(path) {
    define_operators();
    // LibTorch warns of every operator that it has no shortcut for, by a level of the process.
    static std::mutex mutex;
    const std::lock_guard<std::mutex> lock(mutex);
    const int level = std::exchange(FLAGS_caffe2_log_level, kErrorsOnly);
    try {
      handle_ = std::make_unique<torch::nativert::ModelRunnerHandle>(path, graph);
      FLAGS_caffe2_log_level = level;
    } catch (const std::exception& error) {
      FLAGS_caffe2_log_level = level;
      throw ConfigError(fmt::format("--model {}: LibTorch cannot run its graph '{}': {}", path, graph,
                                    replica::first_line(error)),
                        "Export the network again, with the PyTorch version that lockstep was built with.");
    }
  }

  /// Returns the results in the graph's order; gradients among them are empty, because `events` took them.
  /// Rethrows the exception of a callback after the graph has ended without further callbacks.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs, const StepEvents& events) {
    const at::NoGradGuard no_grad;
    std::vector<c10::IValue> arguments(inputs.begin(), inputs.end());
    Running now{events, nullptr};
    std::vector<c10::IValue> results;
    Running* const outer = std::exchange(running, &now);
    try {
      results = handle_->runWithFlatInputsAndOutputs(std::move(arguments));
    } catch (const std::exception& error) {
      running = outer;
      if (now.failure) std::rethrow_exception(now.failure);
      throw Error(fmt::format("a step of {} failed: {}", path_, replica::first_line(error)));
    }
    running = outer;
    if (now.failure) std::rethrow_exception(now.failure);
    std::vector<at::Tensor> tensors;
    tensors.reserve(results.size());
    for (c10::IValue& result : results) tensors.push_back(std::move(result).toTensor());
    return tensors;
  }

 private:
  std::string path_;
  std::unique_ptr<torch::nativert::ModelRunnerHandle> handle_;
};

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
    std::optional<GeneratorScope> random;
    if (file_->draws_random_numbers) random.emplace(scale.device(), step_seed(context));
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
  return c10::getStringToDtypeMap().at(network_file::name_of(type));
}

uint64_t step_seed(const kernels::Context& context) {
  const uint64_t of_step =
      replica::stream_seed(context.seed, "traced step", static_cast<uint64_t>(context.step));
  return replica::stream_seed(of_step, "rank", static_cast<uint64_t>(context.first_sample));
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
