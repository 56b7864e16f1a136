#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/base/stream_seed.h"
#include "lockstep/data/shards.h"
#include "lockstep/data/tensor_folder.h"
#include "lockstep/inputs/ahead.h"
#include "lockstep/inputs/dataset.h"
#include "lockstep/inputs/sources.h"
#include "lockstep/inputs/staged.h"

namespace lockstep::inputs {
namespace {

using Files = std::vector<std::shared_ptr<const data::SampleFile>>;

void check(const data::StoredTensor& stored, const Description& described) {
  const std::string file = stored.file.string();
  if (stored.type != described.type_name) {
    throw ConfigError(fmt::format("'{}' has {} as {}, but the network takes {}", file, described.name,
                                  stored.type, described.type_name),
                      fmt::format("Save it as {}.", described.type_name));
  }
  const std::vector<int64_t> sample(stored.shape.begin() + 1, stored.shape.end());
  if (sample == described.shape) return;
  throw ConfigError(fmt::format("'{}' has {} in samples of shape [{}], but the network takes [{}]", file,
                                described.name, fmt::join(sample, ", "), fmt::join(described.shape, ", ")),
                    "The first dimension counts samples; the others are those of one sample.");
}

/// The files of a batch's tensors, in their order.
Files open_files(const InputOptions& options) {
  if (options.data.empty()) {
    throw ConfigError(
        "the input 'dataset' needs --data FOLDER, the folder of the data",
        "For this network: one with a tensor per input and target, NAME.npy or in *.safetensors.");
  }
  std::vector<std::string> names;
  for (const Description& described : options.described) names.push_back(described.name);
  const data::StoredTensors all = data::find_tensors(options.data, names);
  Files files;
  for (const Description& described : options.described) {
    const data::StoredTensor& stored = all.at(described.name);
    check(stored, described);
    files.push_back(std::make_shared<data::SampleFile>(stored));
    const data::StoredTensor& first = files.front()->tensor();
    const data::StoredTensor& last = files.back()->tensor();
    if (last.samples() == first.samples()) continue;
    throw ConfigError(
        fmt::format("'{}' has {} samples of {}, but '{}' has {} of {}", last.file.string(), last.samples(),
                    described.name, first.file.string(), first.samples(), options.described.front().name),
        "They may not belong together.");
  }
  return files;
}

data::Shards shards_of(const Files& files, const InputOptions& options) {
  return data::Shards({.samples = files.front()->tensor().samples(),
                       .batch = options.batch,
                       .rank = options.rank,
                       .ranks = options.ranks,
                       .seed = options.seed,
                       .batches_per_step = options.batches_per_step});
}

class StoredInput final : public Input {
 public:
  explicit StoredInput(const InputOptions& options)
      : options_(options),
        files_(open_files(options)),
        shards_(shards_of(files_, options)),
        ahead_(queue_of(options, "read", std::max({1, options.workers, options.prefetch}),
                        std::max(1, options.workers)),
               "ls-reader", [this](auto& ring) { read(ring); }) {}

  void skip(int64_t batches) override { first_ += batches; }
  const Batch& next() override { return *ahead_.next(); }
  std::optional<int64_t> batches_per_epoch() const override { return shards_.batches_per_epoch(); }
  std::vector<feed::QueueUse> queues() const override { return {ahead_.use()}; }

 private:
  /// The work of each thread.
  void read(Ahead<Batch>::Ring& ring) const {
    // A copy: its shuffle belongs to this thread's epoch.
    data::Shards shards = shards_;
    while (auto place = ring.claim()) {
      *place->slot = batch_of(shards.batch(first_ + place->number).samples);
      ring.publish(*place);
    }
  }

  Batch batch_of(const std::vector<int64_t>& samples) const {
    std::vector<at::Tensor> tensors;
    std::vector<char> values;
    for (size_t i = 0; i < files_.size(); ++i) {
      const Description& described = options_.described[i];
      const at::Tensor tensor = empty_batch(described, std::ssize(samples));
      values.resize(files_[i]->tensor().bytes_per_sample());
      for (size_t index = 0; index < samples.size(); ++index) {
        files_[i]->read(samples[index], values);
        place_sample(described, values, static_cast<int64_t>(index), tensor);
      }
      tensors.push_back(tensor);
    }
    return batch_of_tensors(std::move(tensors), options_);
  }

  InputOptions options_;
  Files files_;
  data::Shards shards_;
  int64_t first_ = 0;
  /// Last: its threads use all of the above.
  Ahead<Batch> ahead_;
};

}  // namespace

std::unique_ptr<Input> create_stored_input(const InputOptions& options) {
  return std::make_unique<StoredInput>(options);
}

DatasetFacts look_at_stored(const InputOptions& options) {
  const Files files = open_files(options);
  const int64_t samples = files.front()->tensor().samples();
  // Hash only the first and the last sample: files may be large.
  uint64_t hash = 0;
  for (const auto& file : files) {
    std::string sample(file->tensor().bytes_per_sample(), '\0');
    for (const int64_t end : {int64_t{0}, samples - 1}) {
      file->read(end, sample);
      hash = stream_seed(hash, sample);
    }
  }
  return {.text = fmt::format("tensors, {} samples, first and last #{:016x}", samples, hash),
          .batches_per_epoch = shards_of(files, options).batches_per_epoch()};
}

}  // namespace lockstep::inputs
