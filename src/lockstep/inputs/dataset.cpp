#include "lockstep/inputs/dataset.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

// The only file that includes the data loader's slow header.
#include <ATen/Parallel.h>
#include <torch/data/dataloader/stateless.h>
#include <torch/data/datasets/base.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/stream_seed.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/shards.h"
#include "lockstep/data/tensor_folder.h"
#include "lockstep/inputs/staged.h"
#include "lockstep/inputs/stored.h"

namespace lockstep::inputs {
namespace {

/// Counts the use of the data loader's queue, which does not count itself, from its two ends: the calls of
/// its workers, and the time that taking a batch takes. Thread-safe.
class LoaderUse {
 public:
  explicit LoaderUse(feed::QueueUse use) : use_(std::move(use)) {}

  /// Records that a worker read a batch, after it had waited to be called.
  void read(double called_after_s, double took_s) {
    const std::scoped_lock lock(mutex_);
    ++read_;
    ++use_.made;
    use_.made_s += took_s;
    if (called_after_s < kShortest) return;
    ++use_.full;
    use_.full_s += called_after_s;
  }

  /// Number of waiting batches.
  int64_t ready() const {
    const std::scoped_lock lock(mutex_);
    return std::max<int64_t>(0, read_ - taken_);
  }

  /// Records that a batch was taken; `ready_before` were waiting when it was wanted.
  void take(int64_t ready_before, double begin_s, double end_s) {
    const std::scoped_lock lock(mutex_);
    if (taken_++ == 0) {
      first_taken_s_ = end_s;
      return;
    }
    ++use_.batches;
    use_.elapsed_s = end_s - first_taken_s_;
    use_.ready += ready_before;
    if (end_s - begin_s < kShortest) return;
    ++use_.empty;
    use_.empty_s += end_s - begin_s;
  }

  feed::QueueUse use() const {
    const std::scoped_lock lock(mutex_);
    return use_;
  }

 private:
  /// Shorter times are the cost of handing over, not a wait.
  static constexpr double kShortest = 50e-6;

  mutable std::mutex mutex_;
  feed::QueueUse use_;
  int64_t read_ = 0;
  int64_t taken_ = 0;
  double first_taken_s_ = 0;
};

/// A batch as read: 8 bits, [batch, height, width, channels].
struct ReadBatch {
  at::Tensor images;
  at::Tensor labels;
};

/// The sampler's request to the dataset; the data loader asks for its size.
struct Request : data::ShardBatch {
  size_t size() const { return samples.size(); }
};

/// This rank's batches in order, endlessly.
class ShardSampler final : public torch::data::samplers::Sampler<Request> {
 public:
  ShardSampler(data::Shards shards, int64_t first) : shards_(std::move(shards)), next_(first) {}

  void reset(std::optional<size_t> /*new_size*/ = std::nullopt) override {}
  std::optional<Request> next(size_t /*batch_size*/) override { return Request{shards_.batch(next_++)}; }
  // Not needed: a training resumes by its number of steps (Input::skip).
  void save(torch::serialize::OutputArchive& /*archive*/) const override {}
  void load(torch::serialize::InputArchive& /*archive*/) override {}

 private:
  data::Shards shards_;
  int64_t next_;
};

/// Reads whole batches. Each worker thread has a copy.
class BatchReader final : public torch::data::datasets::BatchDataset<BatchReader, ReadBatch, Request> {
 public:
  BatchReader(std::shared_ptr<const data::Dataset> dataset, const InputOptions& options,
              std::shared_ptr<LoaderUse> use)
      : dataset_(std::move(dataset)), options_(options), use_(std::move(use)) {}

  ReadBatch get_batch(Request request) override {
    const double begin_s = now_s();
    ReadBatch batch = read(request);
    const double end_s = now_s();
    use_->read(last_end_s_ == 0 ? 0 : begin_s - last_end_s_, end_s - begin_s);
    last_end_s_ = end_s;
    return batch;
  }

  std::optional<size_t> size() const override { return static_cast<size_t>(dataset_->size()); }

 private:
  ReadBatch read(const Request& request) const {
    const auto count = static_cast<int64_t>(request.size());
    ReadBatch batch{
        at::empty({count, options_.image_size, options_.image_size, options_.channels}, at::kByte),
        at::empty({count}, at::kLong)};
    auto* pixels = batch.images.mutable_data_ptr<uint8_t>();
    auto* labels = batch.labels.mutable_data_ptr<int64_t>();
    data::ReadOptions how{.size = static_cast<int>(options_.image_size),
                          .channels = static_cast<int>(options_.channels)};
    for (const int64_t sample : request.samples) {
      if (!options_.evaluation) {
        how.augmentation = data::augmentation_seed(options_.seed, request.epoch, sample);
      }
      dataset_->read(sample, how, pixels);
      pixels += options_.image_size * options_.image_size * options_.channels;
      *labels++ = dataset_->label(sample);
    }
    return batch;
  }

  std::shared_ptr<const data::Dataset> dataset_;
  InputOptions options_;
  std::shared_ptr<LoaderUse> use_;
  double last_end_s_ = 0;
};

using Loader = torch::data::StatelessDataLoader<BatchReader, ShardSampler>;

std::shared_ptr<const data::Dataset> open(const InputOptions& options) {
  if (options.data.empty()) {
    throw ConfigError("the input 'dataset' needs --data FOLDER, the folder of the data",
                      "data/digits in lockstep's own folder is a small one.");
  }
  return data::open_dataset(options.data,
                            options.evaluation ? data::Split::kEvaluation : data::Split::kTraining);
}

data::Shards make_shards(const data::Dataset& dataset, const InputOptions& options) {
  if (dataset.classes() > options.classes) {
    throw ConfigError(fmt::format("'{}' has {} classes, but the network tells only {} apart", options.data,
                                  dataset.classes(), options.classes),
                      "Choose a network with as many; 'lockstep info models' lists them.");
  }
  return data::Shards({.samples = dataset.size(),
                       .batch = options.batch,
                       .rank = options.rank,
                       .ranks = options.ranks,
                       .seed = options.seed,
                       .batches_per_step = options.batches_per_step,
                       .evaluation = options.evaluation});
}

int workers_of(const InputOptions& options) {
  return options.workers > 0 ? options.workers : std::max(1, at::get_num_threads());
}

int ahead_of(const InputOptions& options) {
  return std::max(options.prefetch, workers_of(options));
}

/// LibTorch's data loader. Made by the training thread, whose number of threads is the default for workers,
/// and used by the stager.
class LoadedBatches final : public HostSource {
 public:
  LoadedBatches(const InputOptions& options, std::shared_ptr<const data::Dataset> dataset,
                data::Shards shards)
      : options_(options),
        workers_(workers_of(options)),
        ahead_(ahead_of(options)),
        dataset_(std::move(dataset)),
        shards_(std::move(shards)),
        batches_per_epoch_(shards_.batches_per_epoch()),
        use_(std::make_shared<LoaderUse>(queue_of(options, "read", ahead_, workers_))) {}

  void skip(int64_t batches) override { first_ += batches; }
  std::optional<int64_t> batches_per_epoch() const override { return batches_per_epoch_; }

  std::optional<HostBatch> next() override {
    if (batches_per_epoch_ == 0) throw Error("this rank has no samples to evaluate with");
    const int64_t ready = use_->ready();
    const double begin_s = now_s();
    const ReadBatch& batch = next_of_loader();
    use_->take(ready, begin_s, now_s());
    return HostBatch{batch.images.const_data_ptr<uint8_t>(), batch.labels.const_data_ptr<int64_t>(),
                     batch.labels.numel()};
  }

  std::vector<feed::QueueUse> queues() const override { return {use_->use()}; }

 private:
  const ReadBatch& next_of_loader() {
    try {
      // Started late: worker threads begin to read at once, and skip() comes before.
      if (loader_ == nullptr) start();
      if (iterator_) {
        ++*iterator_;
      } else {
        iterator_.emplace(loader_->begin());
      }
      return **iterator_;
    } catch (const torch::data::WorkerException& wrapped) {
      std::rethrow_exception(wrapped.original_exception);
    }
  }

  void start() {
    loader_ = std::make_unique<Loader>(BatchReader(dataset_, options_, use_),
                                       ShardSampler(std::move(shards_), first_),
                                       torch::data::DataLoaderOptions()
                                           .workers(static_cast<size_t>(workers_))
                                           .max_jobs(static_cast<size_t>(ahead_)));
  }

  InputOptions options_;
  int workers_;
  int ahead_;
  std::shared_ptr<const data::Dataset> dataset_;
  data::Shards shards_;
  int64_t batches_per_epoch_;
  std::shared_ptr<LoaderUse> use_;
  int64_t first_ = 0;
  std::unique_ptr<Loader> loader_;
  std::optional<torch::data::Iterator<ReadBatch>> iterator_;
};

}  // namespace

std::unique_ptr<Input> create_dataset_input(const InputOptions& options) {
  if (!options.described.empty()) return create_stored_input(options);
  const std::shared_ptr<const data::Dataset> dataset = open(options);
  const data::Normalization statistics = dataset->normalization();
  return std::make_unique<StagedInput>(
      options, feed::scaling_of(statistics.mean, statistics.deviation),
      std::make_unique<LoadedBatches>(options, dataset, make_shards(*dataset, options)));
}

void check_dataset(std::span<const InputOptions> all) {
  std::shared_ptr<const data::Dataset> dataset;
  for (const InputOptions& options : all) {
    if (!options.described.empty()) {
      look_at_stored(options);
      continue;
    }
    if (dataset == nullptr) dataset = open(options);
    make_shards(*dataset, options);
  }
}

DatasetFacts look_at_dataset(const InputOptions& options) {
  if (!options.described.empty()) return look_at_stored(options);
  const std::shared_ptr<const data::Dataset> dataset = open(options);
  // A chain of hashes, so that the order of labels counts.
  uint64_t labels_hash = 0;
  for (int64_t sample = 0; sample < dataset->size(); ++sample) {
    labels_hash = stream_seed(labels_hash, "label", static_cast<uint64_t>(dataset->label(sample)));
  }
  return {.text = fmt::format("{}, {} samples in {} classes, labels #{:016x}", dataset->kind(),
                              dataset->size(), dataset->classes(), labels_hash),
          .batches_per_epoch = make_shards(*dataset, options).batches_per_epoch()};
}

bool holds_tensors(const std::string& folder) {
  return data::has_tensor_files(folder);
}

}  // namespace lockstep::inputs
