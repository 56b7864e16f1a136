#include "lockstep/data/shards.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/stream_seed.h"

namespace lockstep::data {

Shards::Shards(const ShardOptions& options)
    : options_(options), order_(static_cast<size_t>(options.samples)) {
  std::iota(order_.begin(), order_.end(), 0);
  const int64_t global = options.batch * options.ranks;
  batches_per_epoch_ = options.samples / global;
  if (options.evaluation) {
    const int64_t left = options.samples % global;
    if (left > options.rank * options.batch) ++batches_per_epoch_;
    return;
  }
  batches_per_epoch_ -= batches_per_epoch_ % options.batches_per_step;
  if (batches_per_epoch_ == 0) {
    const int64_t parts = options.ranks * options.batches_per_step;
    const std::string times =
        options.batches_per_step == 1 ? "" : fmt::format("{} times ", options.batches_per_step);
    throw ConfigError(
        fmt::format("{} samples are too few for {} {} with {}a batch of {} each", options.samples,
                    options.ranks, options.ranks == 1 ? "rank" : "ranks", times, options.batch),
        fmt::format("Use a batch of {} or less, or fewer ranks.",
                    std::max<int64_t>(1, options.samples / parts)));
  }
}

void Shards::shuffle(int64_t epoch) {
  shuffled_epoch_ = epoch;
  // Start from the plain order, so that an epoch does not depend on earlier ones.
  std::iota(order_.begin(), order_.end(), 0);
  // Not std::shuffle, whose use of the generator is unspecified: epochs would differ between standard
  // libraries. The bias of the remainder of a 64-bit number is too small to notice.
  std::mt19937_64 dice(stream_seed(options_.seed, "epoch", static_cast<uint64_t>(epoch)));
  for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[dice() % i]);
}

ShardBatch Shards::batch(int64_t number) {
  ShardBatch result;
  result.epoch = number / batches_per_epoch_;
  if (!options_.evaluation && shuffled_epoch_ != result.epoch) shuffle(result.epoch);
  const int64_t place = number % batches_per_epoch_;
  const int64_t first = (place * options_.ranks + options_.rank) * options_.batch;
  const int64_t end = std::min(first + options_.batch, options_.samples);
  result.samples.assign(order_.begin() + first, order_.begin() + end);
  return result;
}

uint64_t augmentation_seed(uint64_t seed, int64_t epoch, int64_t sample) {
  return stream_seed(stream_seed(seed, "augmentation", static_cast<uint64_t>(epoch)), "sample",
                     static_cast<uint64_t>(sample));
}

}  // namespace lockstep::data
