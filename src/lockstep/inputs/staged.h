#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <c10/core/Event.h>

#include "lockstep/feed/normalize.h"
#include "lockstep/feed/random_batches.h"
#include "lockstep/inputs/ahead.h"
#include "lockstep/inputs/input.h"

namespace lockstep::inputs {

/// A batch as made or read: 8 bits, [batch, height, width, channels].
struct HostBatch {
  const uint8_t* pixels = nullptr;
  const int64_t* labels = nullptr;
  int64_t batch = 0;
};

/// Memory of such a batch.
struct HostMemory {
  std::vector<uint8_t> pixels;
  std::vector<int64_t> labels;

  void fit(int64_t batch, int64_t image_bytes) {
    pixels.resize(static_cast<size_t>(batch * image_bytes));
    labels.resize(static_cast<size_t>(batch));
  }
  HostBatch view() const { return {pixels.data(), labels.data(), static_cast<int64_t>(labels.size())}; }
};

/// Batches in host memory, in order. Used by one thread, except stop() and queues().
class HostSource {
 public:
  virtual ~HostSource() = default;
  /// Skips batches. Call before the first next().
  virtual void skip(int64_t batches) = 0;
  /// See Input::batches_per_epoch.
  virtual std::optional<int64_t> batches_per_epoch() const { return std::nullopt; }
  /// The next batch, valid until the next call; empty after stop(). Throws if it cannot be made or read.
  virtual std::optional<HostBatch> next() = 0;
  /// Makes next() end soon. From any thread.
  virtual void stop() {}
  virtual std::vector<feed::QueueUse> queues() const { return {}; }
};

/// Batches that threads make or read, each a batch at a time, into a queue.
class HostQueue final : public HostSource {
 public:
  /// Writes batch `number`.
  using Fill = std::function<void(int64_t number, HostMemory& memory)>;

  /// `make_fill` is called by each thread for a function of its own.
  HostQueue(feed::QueueUse use, const char* thread_name, std::function<Fill()> make_fill,
            std::optional<int64_t> batches_per_epoch = std::nullopt);

  void skip(int64_t batches) override { first_ += batches; }
  std::optional<int64_t> batches_per_epoch() const override { return batches_per_epoch_; }
  std::optional<HostBatch> next() override;
  void stop() override { ahead_.close(); }
  std::vector<feed::QueueUse> queues() const override { return {ahead_.use()}; }

 private:
  std::optional<int64_t> batches_per_epoch_;
  int64_t first_ = 0;
  Ahead<HostMemory> ahead_;
};

/// A batch on its way from the stager to the training thread.
struct StagedBatch : Batch {
  /// On a GPU: the end of its copy, in the stager's stream.
  std::optional<c10::Event> arrived;
};

/// Puts batches from a source on the device, normalized, one step ahead of the training thread. The stager, a
/// thread of its own, starts with the first next().
///
///   source --HostBatch--> stager: normalize, or copy to the GPU --StagedBatch--> ring of one --> next()
///
/// On a GPU, next() waits only until the stager has issued the copy; the training thread's stream then waits
/// for its arrival, and the host does not.
class StagedInput : public Input {
 public:
  StagedInput(const InputOptions& options, const feed::Scaling& scaling, std::unique_ptr<HostSource> source);
  ~StagedInput() override;

  const Batch& next() override;
  void skip(int64_t batches) override { source_->skip(batches); }
  std::optional<int64_t> batches_per_epoch() const override { return source_->batches_per_epoch(); }
  std::unique_lock<std::mutex> keep_off_gpu() override { return std::unique_lock(on_gpu_); }
  std::vector<feed::QueueUse> queues() const override;

 private:
  void stage(Ahead<StagedBatch>::Ring& staged);
  /// Normalizes in host memory.
  void normalize(const HostBatch& host, Batch& batch) const;

  InputOptions options_;
  feed::Scaling scaling_;
  std::unique_ptr<HostSource> source_;
  /// Held while the stager calls the GPU.
  std::mutex on_gpu_;
  /// Last: its thread uses all of the above.
  Ahead<StagedBatch> staged_;
};

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

/// The shape of a rank's batches.
feed::BatchShape shape_of(const InputOptions& options);

/// Counters, all zero, for a queue of a rank's batches.
feed::QueueUse queue_of(const InputOptions& options, const char* name, int capacity, int producers);

}  // namespace lockstep::inputs
