#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/registry.h"
#include "lockstep/feed/queue_use.h"
#include "lockstep/replica/accelerator.h"

namespace lockstep::inputs {

/// A tensor that a batch consists of, and how random ones are drawn.
struct Description {
  std::string name;
  /// Shape of one sample; the batch comes before it.
  std::vector<int64_t> shape;
  c10::ScalarType type = c10::kFloat;
  /// As PyTorch names it.
  std::string type_name = "float32";
  bool channels_last = false;
  /// Floating-point numbers: a normal distribution.
  double mean = 0;
  double deviation = 1;
  /// Whole numbers: from `low` to `high` - 1, all equally likely.
  int64_t low = 0;
  int64_t high = 2;

  int64_t bytes_per_sample() const;
};

/// A batch without values, in the layout of the description.
at::Tensor empty_batch(const Description& described, int64_t batch);

/// Writes a sample, given with its last dimension running fastest, to its place in such a batch.
void place_sample(const Description& described, std::span<const char> sample, int64_t index,
                  const at::Tensor& batch);

struct Batch {
  /// [batch, channels, size, size], on the device, in the requested memory format.
  at::Tensor images;
  /// [batch], int64 in [0, classes).
  at::Tensor labels;
  /// Index of the first sample in the global batch of this step.
  int64_t first_sample = 0;
  /// All tensors of a batch that is not images and labels: inputs, then targets (InputOptions::described).
  /// The first and the last of them are `images` and `labels`, too.
  std::vector<at::Tensor> samples = {};

  /// All tensors of any batch: inputs, then targets.
  std::vector<at::Tensor> tensors() const { return samples.empty() ? std::vector{images, labels} : samples; }
};

/// A source of batches.
class Input {
 public:
  virtual ~Input() = default;
  /// The next batch, already on the device; on a GPU it is ready for work that the calling thread's stream
  /// gets from now on. Called by one thread, which has entered the accelerator of the options.
  virtual const Batch& next() = 0;

  /// Skips batches, for a training that resumes another one. Call before the first next().
  virtual void skip(int64_t batches) {
    for (int64_t i = 0; i < batches; ++i) next();
  }

  /// Batches that this rank gets from one pass over the data, after which the next pass begins; empty for
  /// inputs without passes. In an evaluation ranks may differ by one; a rank with none must not call next().
  virtual std::optional<int64_t> batches_per_epoch() const { return std::nullopt; }

  /// Waits until no thread of this input is calling the GPU, and keeps them from it while the lock is held,
  /// as while a step is recorded. next() must not be called meanwhile.
  virtual std::unique_lock<std::mutex> keep_off_gpu() { return {}; }

  /// Counts of the queues between the origin of batches and next(), the one nearest to next() last, with the
  /// same names on every rank.
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
  /// The tensors of a batch for a network that takes other than images and labels; empty for all others. The
  /// inputs `device` and `dataset` have these.
  std::vector<Description> described = {};
  /// The folder of real data.
  std::string data;
  /// Batches that a step takes: one pass over real data is a whole number of steps.
  int64_t batches_per_step = 1;
  /// Read the evaluation samples, each once and unaugmented, instead of the training samples.
  bool evaluation = false;
  /// Threads that make or read batches; 0: 1, and for real data as many as the calling thread computes with.
  int workers = 0;
  /// Batches that are made or read ahead; of real data one per worker at least.
  int prefetch = 4;
  /// The job's address for batches from other processes.
  std::string address;
  /// Time without a batch from another process after which next() fails.
  double timeout_s = kDefaultTimeout_s;
  /// The device for the batches; null: the CPU.
  std::shared_ptr<replica::Accelerator> accelerator;
};

struct InputInfo {
  std::string description;
  std::unique_ptr<Input> (*create)(const InputOptions& options) = nullptr;
  /// The options that it respects.
  bool has_workers = false;
  bool has_prefetch = false;
  bool has_data = false;
  bool has_address = false;
};

/// All inputs by name. `device`: a few random batches made once on the device and used in turn; sample i of
/// the global batch has the same values whatever the number of ranks. `host`, `queue`: random ones, new in
/// every step. `zmq`: batches from other processes. For these see sources.h. `dataset`: real data, see
/// dataset.h.
const Registry<InputInfo>& registry();

}  // namespace lockstep::inputs
