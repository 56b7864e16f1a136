#include "lockstep/strategies/buckets.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"

namespace lockstep::strategies {
namespace {

constexpr int64_t kBytesPerElement = 4;
constexpr int64_t kLastBucketBytes = kMiB;

}  // namespace

std::vector<Bucket> plan_buckets(const replica::FlatMemory& memory, int64_t cap_bytes,
                                 const BucketRules& rules) {
  const replica::Range whole = rules.within.value_or(replica::Range{0, memory.padded_count()});
  std::vector<Bucket> buckets;
  if (whole.count() == 0) return buckets;
  const auto elements = [&](int64_t bytes) {
    return std::max<int64_t>(1, bytes / kBytesPerElement / rules.multiple_of) * rules.multiple_of;
  };
  const int64_t cap = elements(cap_bytes);
  const int64_t last = std::min(cap, elements(kLastBucketBytes));
  // If everything fits in the last, small bucket, a second one would be useless.
  const int64_t last_begin = whole.count() <= last ? whole.begin : whole.end - last;
  for (int64_t begin = whole.begin; begin < last_begin; begin += cap) {
    buckets.push_back({{begin, std::min(begin + cap, last_begin)}, {}});
  }
  buckets.push_back({{last_begin, whole.end}, {}});
  size_t first = 0;
  for (const size_t parameter : memory.order()) {
    const replica::Range range = memory.range_of(parameter);
    if (range.end <= whole.begin) continue;
    while (buckets[first].range.end <= range.begin && first + 1 < buckets.size()) ++first;
    for (size_t i = first; i < buckets.size() && buckets[i].range.begin < range.end; ++i) {
      if (range.begin < buckets[i].range.end) buckets[i].parameters.push_back(parameter);
    }
  }
  return buckets;
}

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
  reported_ = 0;
  gradients_.begin_step();
  for (size_t i = 0; i < buckets_.size(); ++i) missing_[i] = buckets_[i].parameters.size();
}

void BucketFiller::finish() {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    if (missing_[i] == 0) continue;
    throw Error(fmt::format("{} parameters of bucket {} got no gradient in this step", missing_[i], i + 1),
                "This strategy needs a network that uses all of its parameters in every step.");
  }
  report_full_buckets();
}

void BucketFiller::gradient_final(size_t index) {
  ready_order_.push_back(index);
  for (const size_t bucket : buckets_of_[index]) --missing_[bucket];
  if (overlap_) report_full_buckets();
}

void BucketFiller::report_full_buckets() {
  if (reported_ == buckets_.size() || missing_[reported_] > 0) return;
  gradients_.fill_places();
  while (reported_ < buckets_.size() && missing_[reported_] == 0) on_full_(reported_++);
}

Fusion::Fusion(const replica::FlatMemory& memory, int64_t cap_bytes, bool fixed)
    : memory_(memory), cap_(cap_bytes / 4) {
  if (!fixed) return;
  fixed_ = pack(memory.order());
  pack_of_.resize(memory.order().size());
  for (size_t i = 0; i < fixed_.size(); ++i) {
    for (const size_t tensor : fixed_[i].tensors) pack_of_[tensor] = i;
    missing_.push_back(fixed_[i].tensors.size());
  }
}

std::vector<replica::Range> Fusion::packs_of(const std::vector<size_t>& tensors) {
  std::vector<replica::Range> full;
  if (fixed_.empty()) {
    std::vector<size_t> in_order = tensors;
    std::ranges::sort(in_order, {}, [this](size_t tensor) { return memory_.range_of(tensor).begin; });
    for (const Pack& pack : pack(in_order)) full.push_back(pack.range);
    return full;
  }
  for (const size_t tensor : tensors) {
    const size_t pack = pack_of_[tensor];
    if (--missing_[pack] > 0) continue;
    full.push_back(fixed_[pack].range);
    missing_[pack] = fixed_[pack].tensors.size();
  }
  return full;
}

std::vector<Fusion::Pack> Fusion::pack(const std::vector<size_t>& tensors) const {
  std::vector<Pack> packs;
  for (const size_t tensor : tensors) {
    const replica::Range range = memory_.range_of(tensor);
    const bool fits = !packs.empty() && packs.back().range.end == range.begin &&
                      packs.back().range.count() + range.count() <= cap_;
    if (!fits) packs.push_back({{range.begin, range.begin}, {}});
    packs.back().range.end = range.end;
    packs.back().tensors.push_back(tensor);
  }
  return packs;
}

}  // namespace lockstep::strategies
