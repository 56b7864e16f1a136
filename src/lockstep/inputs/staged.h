#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include <c10/core/Event.h>

#include "lockstep/feed/normalize.h"
#include "lockstep/feed/ordered_ring.h"
#include "lockstep/feed/random_batches.h"
#include "lockstep/inputs/input.h"

namespace lockstep::inputs {

/// A batch as it is made or read: 8 bits, [batch, height, width, channels].
struct HostBatch {
  const uint8_t* pixels = nullptr;
  const int64_t* labels = nullptr;
  int64_t batch = 0;
};

/// Batches in host memory, in order. Used by one thread, but for stop() and queues().
class HostSource {
 public:
  virtual ~HostSource() = default;
  /// Leaves out so many batches, before the first next().
  virtual void skip(int64_t batches) = 0;
  /// The next batch, which stays until the next call; nothing once it was stopped. Throws what it cannot be
  /// made or read for.
  virtual std::optional<HostBatch> next() = 0;
  /// Makes next() end soon. From any thread.
  virtual void stop() {}
  virtual std::vector<feed::QueueUse> queues() const { return {}; }
};

/// A batch between the stager and who trains.
struct StagedBatch : Batch {
  /// On a GPU, in the stager's stream.
  std::optional<c10::Event> arrived;
};

class GpuStage;

/// Has a thread of its own take batches from a source and put them on the device, normalised, one step ahead
/// of who trains; the thread begins with the first next(). On a GPU next() waits until the thread has put a
/// batch on its way; who trains then waits for its arrival in its stream, and the host does not.
class StagedInput : public Input {
 public:
  StagedInput(const InputOptions& options, const feed::Scaling& scaling, std::unique_ptr<HostSource> source);
  ~StagedInput() override;

  const Batch& next() override;
  void skip(int64_t batches) override { source_->skip(batches); }
  std::unique_lock<std::mutex> keep_off_gpu() override { return std::unique_lock(on_gpu_); }
  std::vector<feed::QueueUse> queues() const override;

 private:
  void stage();
  /// Null without one.
  std::unique_ptr<GpuStage> open_gpu();
  /// In the memory of the host.
  void normalize(const HostBatch& host, Batch& batch) const;

  InputOptions options_;
  feed::Scaling scaling_;
  std::unique_ptr<HostSource> source_;
  feed::OrderedRing<StagedBatch> staged_;
  /// Held while the stager calls the GPU.
  std::mutex on_gpu_;
  std::thread thread_;
};

/// Of a rank's batches.
feed::BatchShape shape_of(const InputOptions& options);

/// Name and batch of a queue in front of such an input.
feed::QueueUse queue_of(const InputOptions& options, const char* name, int capacity, int producers);

/// Names the calling thread, at most 15 characters, for those who look at a running process.
void name_this_thread(const char* name);

}  // namespace lockstep::inputs
