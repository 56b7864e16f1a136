#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/registry.h"
#include "lockstep/feed/queue_use.h"
#include "lockstep/replica/accelerator.h"

namespace lockstep::inputs {

struct Batch {
  /// [batch, channels, size, size], on the device, in the requested memory format.
  at::Tensor images;
  /// [batch], int64 in [0, classes).
  at::Tensor labels;
  /// Index of the first sample in the global batch of this step.
  int64_t first_sample = 0;
};

/// Where batches come from.
class Input {
 public:
  virtual ~Input() = default;
  /// The next batch, already on the device: on a GPU for what the calling thread's stream gets from now on.
  /// Called by one thread, which has entered the accelerator of the options.
  virtual const Batch& next() = 0;

  /// Leaves out so many batches, as when a training goes on where another ended. Before the first next().
  virtual void skip(int64_t batches) {
    for (int64_t i = 0; i < batches; ++i) next();
  }

  /// Batches that this rank gets of one pass over the data, then the next pass begins; empty where there are
  /// no passes. In an evaluation ranks may differ by one, and have none, where next() may not be called.
  virtual std::optional<int64_t> batches_per_epoch() const { return std::nullopt; }

  /// While the lock is held no thread of this input calls the GPU, as while a step is recorded; next() is not
  /// called meanwhile. Waits until they have done what they are at.
  virtual std::unique_lock<std::mutex> keep_off_gpu() { return {}; }

  /// How the queues between where batches come from and next() were used so far, nearest to next() last, with
  /// the same names on every rank.
  virtual std::vector<feed::QueueUse> queues() const { return {}; }
};

struct InputOptions {
  int64_t batch = 32;
  int64_t channels = 3;
  int64_t image_size = 224;
  int64_t classes = 1000;
  uint64_t seed = 1;
  /// This rank's place among the ranks that share a global batch.
  int rank = 0;
  int ranks = 1;
  at::MemoryFormat memory_format = at::MemoryFormat::ChannelsLast;
  /// The folder of real data.
  std::string data;
  /// That a step takes: one pass over real data is a whole number of steps.
  int64_t batches_per_step = 1;
  /// Real data to evaluate with, each once and as they are, instead of those to train with.
  bool evaluation = false;
  /// Threads that make or read batches; 0: 1, and for real data as many as the calling thread computes with.
  int workers = 0;
  /// Batches that are made or read ahead; of real data one per worker at least.
  int prefetch = 4;
  /// Of the job, where batches of other processes arrive.
  std::string address;
  /// Without a batch of another process for so long, none will come.
  double timeout_s = 30;
  /// Where the batches are to be; null: on the CPU.
  std::shared_ptr<replica::Accelerator> accelerator;
};

struct InputInfo {
  std::string description;
  std::unique_ptr<Input> (*create)(const InputOptions& options) = nullptr;
  /// What it can be told.
  bool has_workers = false;
  bool has_prefetch = false;
  bool has_data = false;
  bool has_address = false;
};

/// All inputs by name. `device`: a few random batches made once on the device and used in turn; sample i of
/// the global batch has the same values whatever the number of ranks. `host`, `queue`: random ones, new in
/// every step, see random.h. `dataset`: real data, see dataset.h. `zmq`: what other processes send, see
/// zmq.h.
const Registry<InputInfo>& registry();

}  // namespace lockstep::inputs
