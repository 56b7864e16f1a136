#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::models {

/// Callbacks from a traced step while it runs, in its thread.
struct StepEvents {
  /// The forward pass is over.
  std::function<void()> forward_done;
  /// The gradient of parameter `index` is final. The callee may keep the tensor, which belongs to it alone.
  std::function<void(int64_t index, at::Tensor gradient)> gradient_ready;
};

/// Runs one graph of a network's file with LibTorch's NativeRT. The only user of its header. Not thread-safe;
/// objects in several threads are independent.
class NativeRunner {
 public:
  /// Throws ConfigError, naming the file, if LibTorch cannot run the graph.
  NativeRunner(const std::string& path, const std::string& graph);
  ~NativeRunner();
  NativeRunner(const NativeRunner&) = delete;
  NativeRunner& operator=(const NativeRunner&) = delete;

  /// Returns the results in the graph's order; gradients among them are empty, because `events` took them.
  /// Rethrows the exception of a callback after the graph has ended without further callbacks.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs, const StepEvents& events);

 private:
  class Handle;

  std::string path_;
  std::unique_ptr<Handle> handle_;
};

}  // namespace lockstep::models
