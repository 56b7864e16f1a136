#include "lockstep/measure/stretches.h"

#include <algorithm>

namespace lockstep::measure {

std::vector<Stretch> merged(std::vector<Stretch> stretches, double gap_s) {
  std::ranges::sort(stretches, {}, &Stretch::begin_s);
  std::vector<Stretch> all;
  for (const Stretch& stretch : stretches) {
    if (all.empty() || stretch.begin_s > all.back().end_s + gap_s) {
      all.push_back(stretch);
    } else {
      all.back().end_s = std::max(all.back().end_s, stretch.end_s);
    }
  }
  return all;
}

std::vector<Stretch> without(const std::vector<Stretch>& stretches, const std::vector<Stretch>& others) {
  std::vector<Stretch> rest;
  auto other = others.begin();
  for (const Stretch& stretch : stretches) {
    double at_s = stretch.begin_s;
    while (other != others.end() && other->end_s <= at_s) ++other;
    for (auto cut = other; cut != others.end() && cut->begin_s < stretch.end_s; ++cut) {
      if (cut->begin_s > at_s) rest.push_back({at_s, cut->begin_s});
      at_s = std::max(at_s, cut->end_s);
    }
    if (at_s < stretch.end_s) rest.push_back({at_s, stretch.end_s});
  }
  return rest;
}

std::vector<Stretch> within(const std::vector<Stretch>& stretches, double begin_s, double end_s) {
  std::vector<Stretch> parts;
  const auto first = std::ranges::upper_bound(stretches, begin_s, {}, &Stretch::end_s);
  for (auto each = first; each != stretches.end() && each->begin_s < end_s; ++each) {
    const Stretch part{std::max(each->begin_s, begin_s), std::min(each->end_s, end_s)};
    if (part.end_s > part.begin_s) parts.push_back(part);
  }
  return parts;
}

double total_s(const std::vector<Stretch>& stretches) {
  double sum_s = 0;
  for (const Stretch& stretch : stretches) sum_s += stretch.end_s - stretch.begin_s;
  return sum_s;
}

}  // namespace lockstep::measure
