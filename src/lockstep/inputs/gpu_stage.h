#pragma once

#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include "lockstep/inputs/staged.h"

namespace lockstep::inputs {

/// Scale and shift of each channel as tensors, made once.
struct ChannelScaling {
  /// fp32, [1, channels, 1, 1], on that device.
  ChannelScaling(const feed::Scaling& scaling, int64_t channels, at::Device device);

  at::Tensor scale;
  at::Tensor shift;
};

/// Computes feed::normalize_interleaved or normalize_planar on the device that holds the pixels, in two
/// launches that the host does not wait for. A value may differ from theirs by a rounding error. `pixels`:
/// uint8, [batch, height, width, channels], contiguous. Returns fp32 [batch, channels, height, width] in the
/// memory format.
at::Tensor normalized(const at::Tensor& pixels, const ChannelScaling& scaling,
                      at::MemoryFormat memory_format);

/// Copies batches from host memory to a GPU while it trains: through pinned memory, as 8-bit pixels, in a
/// stream of its own, which also normalizes them. Used by one thread, except hand_over.
class GpuStage {
 public:
  /// Call on the thread that will call put.
  GpuStage(const InputOptions& options, const feed::Scaling& scaling);
  /// Waits for the last copy.
  ~GpuStage();
  GpuStage(const GpuStage&) = delete;
  GpuStage& operator=(const GpuStage&) = delete;

  /// Starts to copy a batch. `host` may be reused when this returns; it waits at most for the copy of the
  /// batch before.
  void put(const HostBatch& host, StagedBatch& batch);

  /// For the training thread: work that its stream gets from now on starts after the batch has arrived, and
  /// the batch's memory is reused only after that work.
  static void hand_over(StagedBatch& batch);

 private:
  at::Tensor to_gpu(const at::Tensor& pinned) const;

  InputOptions options_;
  c10::Stream stream_;
  ChannelScaling scaling_;
  /// Pinned host memory for a whole batch.
  at::Tensor pinned_pixels_, pinned_labels_;
  /// Completes when the GPU has read both.
  c10::Event copied_;
};

}  // namespace lockstep::inputs
