#include "lockstep/measure/sequential.h"

#include <algorithm>

#include "lockstep/base/assert.h"

namespace lockstep::measure {
namespace {

/// Fewer pairs have a t interval several times as wide as the scatter of the pairs.
constexpr size_t kFirstLook = 4;

}  // namespace

LookPlan::LookPlan(size_t most_pairs, double confidence) : confidence_(confidence) {
  LOCKSTEP_ASSERT(most_pairs >= 2);
  // Growing by a half and by a third in turn: even numbers, so that every look has whole ABBA blocks.
  for (size_t pairs = kFirstLook; pairs < most_pairs; pairs *= 2) {
    looks_.push_back(pairs);
    if (pairs + pairs / 2 < most_pairs) looks_.push_back(pairs + pairs / 2);
  }
  looks_.push_back(most_pairs);
}

bool LookPlan::is_look(size_t pairs) const {
  return std::ranges::find(looks_, pairs) != looks_.end();
}

double LookPlan::confidence_of_look(bool last) const {
  const double error = 1 - confidence_;
  if (looks_.size() == 1) return confidence_;
  const double part = last ? 0.5 : 0.5 / static_cast<double>(looks_.size() - 1);
  return 1 - part * error;
}

Certainty certainty_of(const Comparison& row) {
  if (row.differs() && !row.within_launches) return Certainty::kDiffers;
  const bool inside = row.ratio_interval && !row.within_launches &&
                      row.ratio_interval->lower > 1 - row.options.threshold &&
                      row.ratio_interval->upper < 1 + row.options.threshold;
  return inside ? Certainty::kBelowThreshold : Certainty::kOpen;
}

}  // namespace lockstep::measure
