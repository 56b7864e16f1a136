#pragma once

#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include "lockstep/inputs/normalized.h"
#include "lockstep/inputs/staged.h"

namespace lockstep::inputs {

/// Brings batches from host memory into that of a GPU beside what trains there: through pinned memory, as the
/// 8-bit pixels that they are, in a stream of its own, in which they are normalised too. One thread uses it,
/// but for hand_over.
class GpuStage {
 public:
  /// On the thread that will call put.
  GpuStage(const InputOptions& options, const feed::Scaling& scaling);
  /// Waits for the last copy.
  ~GpuStage();
  GpuStage(const GpuStage&) = delete;
  GpuStage& operator=(const GpuStage&) = delete;

  /// Starts to bring a batch; `host` is free again when this returns, which waits for the copy of the batch
  /// before it at most.
  void put(const HostBatch& host, StagedBatch& batch);

  /// For who trains: what its thread's stream gets from now on comes after the batch has arrived, and memory
  /// of the batch is used again only after that.
  static void hand_over(StagedBatch& batch);

 private:
  at::Tensor to_gpu(const at::Tensor& pinned) const;

  InputOptions options_;
  c10::Stream stream_;
  ChannelScaling scaling_;
  /// Of a whole batch.
  at::Tensor pinned_pixels_, pinned_labels_;
  /// The GPU has read what is in these.
  c10::Event copied_;
};

}  // namespace lockstep::inputs
