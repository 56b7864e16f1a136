#include "lockstep/inputs/dataset.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

// Of LibTorch's heavy headers the data loader's alone, and here alone.
#include <ATen/Parallel.h>
#include <torch/data/dataloader/stateless.h>
#include <torch/data/datasets/base.h>

#include "lockstep/base/error.h"
#include "lockstep/base/stream_seed.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/shards.h"

namespace lockstep::inputs {
namespace {

/// As it is read: 8 bits, [batch, height, width, channels].
struct HostBatch {
  at::Tensor images;
  at::Tensor labels;
};

/// What the sampler asks of the dataset; the data loader wants to know its size.
struct Request : data::ShardBatch {
  size_t size() const { return samples.size(); }
};

/// This rank's batches in their order, without an end.
class ShardSampler final : public torch::data::samplers::Sampler<Request> {
 public:
  ShardSampler(data::Shards shards, int64_t first) : shards_(std::move(shards)), next_(first) {}

  void reset(std::optional<size_t> /*new_size*/ = std::nullopt) override {}
  std::optional<Request> next(size_t /*batch_size*/) override { return Request{shards_.batch(next_++)}; }
  // Where a training goes on is said by its number of steps (Input::skip).
  void save(torch::serialize::OutputArchive& /*archive*/) const override {}
  void load(torch::serialize::InputArchive& /*archive*/) override {}

 private:
  data::Shards shards_;
  int64_t next_;
};

/// Reads whole batches. Each worker thread has a copy.
class BatchReader final : public torch::data::datasets::BatchDataset<BatchReader, HostBatch, Request> {
 public:
  BatchReader(std::shared_ptr<const data::Dataset> dataset, const InputOptions& options)
      : dataset_(std::move(dataset)), options_(options) {}

  HostBatch get_batch(Request request) override {
    const auto count = static_cast<int64_t>(request.size());
    HostBatch batch{
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

  std::optional<size_t> size() const override { return static_cast<size_t>(dataset_->size()); }

 private:
  std::shared_ptr<const data::Dataset> dataset_;
  InputOptions options_;
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

class DatasetInput final : public Input {
 public:
  explicit DatasetInput(const InputOptions& options)
      : options_(options),
        dataset_(open(options)),
        shards_(make_shards(*dataset_, options)),
        batches_per_epoch_(shards_.batches_per_epoch()) {
    const data::Normalization values = dataset_->normalization();
    scale_ = at::empty({1, options.channels, 1, 1});
    shift_ = at::empty({1, options.channels, 1, 1});
    for (int64_t c = 0; c < options.channels; ++c) {
      const auto channel = static_cast<size_t>(c);
      scale_.mutable_data_ptr<float>()[c] = 1 / (255 * values.deviation[channel]);
      shift_.mutable_data_ptr<float>()[c] = -values.mean[channel] / values.deviation[channel];
    }
  }

  const Batch& next() override {
    const HostBatch& host = next_on_host();
    // One pass changes type and layout; pixels lie interleaved, as in channels_last.
    batch_.images = host.images.permute({0, 3, 1, 2}).to(at::kFloat, false, false, options_.memory_format);
    batch_.images.mul_(scale_).add_(shift_);
    batch_.labels = host.labels;
    batch_.first_sample = options_.rank * options_.batch;
    return batch_;
  }

  void skip(int64_t batches) override { first_ += batches; }

  std::optional<int64_t> batches_per_epoch() const override { return batches_per_epoch_; }

 private:
  const HostBatch& next_on_host() {
    if (batches_per_epoch_ == 0) throw Error("this rank has no samples to evaluate with");
    try {
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
    const int workers = options_.workers > 0 ? options_.workers : std::max(1, at::get_num_threads());
    const auto ahead = static_cast<size_t>(std::max(options_.prefetch, workers));
    loader_ = std::make_unique<Loader>(
        BatchReader(dataset_, options_), ShardSampler(std::move(shards_), first_),
        torch::data::DataLoaderOptions().workers(static_cast<size_t>(workers)).max_jobs(ahead));
  }

  InputOptions options_;
  std::shared_ptr<const data::Dataset> dataset_;
  data::Shards shards_;
  int64_t batches_per_epoch_;
  int64_t first_ = 0;
  at::Tensor scale_;
  at::Tensor shift_;
  std::unique_ptr<Loader> loader_;
  std::optional<torch::data::Iterator<HostBatch>> iterator_;
  Batch batch_;
};

}  // namespace

std::unique_ptr<Input> create_dataset_input(const InputOptions& options) {
  return std::make_unique<DatasetInput>(options);
}

void check_dataset(std::span<const InputOptions> all) {
  if (all.empty()) return;
  const std::shared_ptr<const data::Dataset> dataset = open(all.front());
  for (const InputOptions& options : all) make_shards(*dataset, options);
}

DatasetFacts look_at_dataset(const InputOptions& options) {
  const std::shared_ptr<const data::Dataset> dataset = open(options);
  DatasetFacts facts{.kind = dataset->kind(),
                     .samples = dataset->size(),
                     .classes = dataset->classes(),
                     .batches_per_epoch = make_shards(*dataset, options).batches_per_epoch()};
  for (int64_t sample = 0; sample < facts.samples; ++sample) {
    facts.labels_hash =
        stream_seed(facts.labels_hash, "label", static_cast<uint64_t>(dataset->label(sample)));
  }
  return facts;
}

}  // namespace lockstep::inputs
