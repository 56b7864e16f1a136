#include "lockstep/models/native_runner.h"

#include <exception>
#include <utility>

#include <fmt/format.h>

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Flags.h>
#include <torch/csrc/api/include/torch/nativert/ModelRunnerHandle.h>
#include <torch/library.h>

#include "lockstep/base/error.h"
#include "lockstep/replica/torch_error.h"

// The least level that LibTorch logs: 0 to 3, information to fatal.
C10_DECLARE_int(caffe2_log_level);

namespace lockstep::models {
namespace {

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

/// The operators of python/lockstep/operators.py, which mark places in a traced step.
void define_operators() {
  static torch::Library* const operators = [] {
    auto* library = new torch::Library(torch::Library::DEF, "lockstep", std::nullopt, __FILE__, __LINE__);
    library->def("forward_done(Tensor loss) -> Tensor");
    library->def("grad_ready(Tensor gradient, int index) -> Tensor");
    library->impl("forward_done", c10::DispatchKey::CompositeExplicitAutograd, &forward_done);
    library->impl("grad_ready", c10::DispatchKey::CompositeExplicitAutograd, &grad_ready);
    return library;
  }();
  static_cast<void>(operators);
}

constexpr int kErrorsOnly = 2;

}  // namespace

class NativeRunner::Handle : public torch::nativert::ModelRunnerHandle {
 public:
  using ModelRunnerHandle::ModelRunnerHandle;
};

NativeRunner::NativeRunner(const std::string& path, const std::string& graph) : path_(path) {
  define_operators();
  // LibTorch warns of every operator that it has no shortcut for.
  const int level = std::exchange(FLAGS_caffe2_log_level, kErrorsOnly);
  try {
    handle_ = std::make_unique<Handle>(path, graph);
    FLAGS_caffe2_log_level = level;
  } catch (const std::exception& error) {
    FLAGS_caffe2_log_level = level;
    throw ConfigError(fmt::format("--model {}: LibTorch cannot run its graph '{}': {}", path, graph,
                                  replica::first_line(error)),
                      "Export the network again, with the PyTorch version that lockstep was built with.");
  }
}

NativeRunner::~NativeRunner() = default;

std::vector<at::Tensor> NativeRunner::run(const std::vector<at::Tensor>& inputs, const StepEvents& events) {
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

}  // namespace lockstep::models
