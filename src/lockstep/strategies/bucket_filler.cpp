#include "lockstep/strategies/bucket_filler.h"

#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::strategies {

std::vector<size_t> reverse_order(size_t parameters) {
  std::vector<size_t> order(parameters);
  std::iota(order.rbegin(), order.rend(), size_t{0});
  return order;
}

BucketFiller::BucketFiller(replica::Parameters& parameters, replica::FlatMemory& memory, double scale,
                           bool overlap, OnFull on_full)
    : overlap_(overlap),
      on_full_(std::move(on_full)),
      buckets_of_(parameters.trainable().size()),
      gradients_(parameters, memory, scale, copying_for(memory),
                 [this](size_t index) { gradient_final(index); }) {}

void BucketFiller::set_plan(std::vector<Bucket> buckets) {
  buckets_ = std::move(buckets);
  missing_.assign(buckets_.size(), 0);
  buckets_of_.assign(buckets_of_.size(), {});
  for (size_t i = 0; i < buckets_.size(); ++i) {
    for (const size_t parameter : buckets_[i].parameters) buckets_of_[parameter].push_back(i);
  }
}

void BucketFiller::begin_step() {
  ready_order_.clear();
  told_ = 0;
  gradients_.begin_step();
  for (size_t i = 0; i < buckets_.size(); ++i) missing_[i] = buckets_[i].parameters.size();
}

void BucketFiller::finish() {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    if (missing_[i] == 0) continue;
    throw Error(fmt::format("{} parameters of bucket {} got no gradient in this step", missing_[i], i + 1),
                "This strategy needs a network that uses all of its parameters in every step.");
  }
  tell_full_buckets();
}

void BucketFiller::gradient_final(size_t index) {
  ready_order_.push_back(index);
  for (const size_t bucket : buckets_of_[index]) --missing_[bucket];
  if (overlap_) tell_full_buckets();
}

void BucketFiller::tell_full_buckets() {
  if (told_ == buckets_.size() || missing_[told_] > 0) return;
  gradients_.fill_places();
  while (told_ < buckets_.size() && missing_[told_] == 0) on_full_(told_++);
}

}  // namespace lockstep::strategies
