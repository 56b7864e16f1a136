#include "lockstep/inputs/dataset.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include <ATen/Parallel.h>

#include "lockstep/base/error.h"
#include "lockstep/base/stream_seed.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/shards.h"
#include "lockstep/data/tensor_folder.h"
#include "lockstep/inputs/staged.h"

namespace lockstep::inputs {
namespace {

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
    throw ConfigError(
        fmt::format("'{}' has {} classes, but the network tells only {} apart", options.data,
                    dataset.classes(), options.classes),
        fmt::format("Choose a network with as many ('lockstep info models' lists them), or export "
                    "yours again with target_range=(0, {}).",
                    dataset.classes()));
  }
  return data::Shards({.samples = dataset.size(),
                       .batch = options.batch,
                       .rank = options.rank,
                       .ranks = options.ranks,
                       .seed = options.seed,
                       .batches_per_step = options.batches_per_step,
                       .evaluation = options.evaluation});
}

/// Reads whole batches. Each worker thread has its own, since shards keep the order of an epoch.
struct BatchReader {
  std::shared_ptr<const data::Dataset> dataset;
  InputOptions options;
  data::Shards shards;

  void operator()(int64_t number, HostMemory& memory) {
    if (shards.batches_per_epoch() == 0) throw Error("this rank has no samples to evaluate with");
    const data::ShardBatch batch = shards.batch(number);
    const int64_t image_bytes = options.image_size * options.image_size * options.channels;
    memory.fit(std::ssize(batch.samples), image_bytes);
    data::ReadOptions how{.size = static_cast<int>(options.image_size),
                          .channels = static_cast<int>(options.channels)};
    uint8_t* pixels = memory.pixels.data();
    for (size_t i = 0; i < batch.samples.size(); ++i, pixels += image_bytes) {
      const int64_t sample = batch.samples[i];
      if (!options.evaluation) how.augmentation = data::augmentation_seed(options.seed, batch.epoch, sample);
      dataset->read(sample, how, pixels);
      memory.labels[i] = dataset->label(sample);
    }
  }
};

/// Called by the training thread, whose number of threads is the default for workers.
std::unique_ptr<HostSource> read_ahead(const InputOptions& options,
                                       std::shared_ptr<const data::Dataset> dataset) {
  const int workers = options.workers > 0 ? options.workers : std::max(1, at::get_num_threads());
  const BatchReader reader{dataset, options, make_shards(*dataset, options)};
  return std::make_unique<HostQueue>(
      queue_of(options, "read", std::max(options.prefetch, workers), workers), "ls-reader",
      [reader] { return reader; }, reader.shards.batches_per_epoch());
}

}  // namespace

std::unique_ptr<Input> create_dataset_input(const InputOptions& options) {
  if (!options.described.empty()) return create_stored_input(options);
  const std::shared_ptr<const data::Dataset> dataset = open(options);
  const data::Normalization statistics = dataset->normalization();
  return std::make_unique<StagedInput>(options, feed::scaling_of(statistics.mean, statistics.deviation),
                                       read_ahead(options, dataset));
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
