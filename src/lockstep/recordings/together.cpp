#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/recordings/kineto_trace.h"
#include "lockstep/recordings/rank_steps.h"

namespace lockstep::recordings {
namespace {

/// Kind and group of each collective of a step.
using Signature = std::vector<std::pair<std::string, std::string>>;

/// Whether a collective involves all the ranks that were recorded, as far as the trace says.
bool involves(const Collective& collective, const std::vector<PlacedSteps>& ranks) {
  const std::vector<int> members = ranks_in_text(collective.group_ranks);
  if (members.empty()) return true;
  // PyTorch lists the first 30, in order.
  const bool more = collective.group_ranks.find("...") != std::string::npos;
  return std::ranges::all_of(ranks, [&](const PlacedSteps& each) {
    return (more && each.rank > members.back()) || std::ranges::find(members, each.rank) != members.end();
  });
}

/// Whether none can end before every rank has begun.
bool waits_for_all(const std::string& kind) {
  return kind == "all-reduce" || kind == "all-gather" || kind == "reduce-scatter" || kind == "all-to-all" ||
         kind == "barrier";
}

[[noreturn]] void refuse_disjoint() {
  throw Error("the traces of the ranks have no step in common",
              "Record the same steps on all ranks, or import the trace of one rank.");
}

/// Number of steps by which `other` is ahead of `first`: its step i + shift is the step i of `first`.
std::ptrdiff_t shift_of(const RankSteps& first, const RankSteps& other) {
  for (size_t i = 0; i < first.steps.size(); ++i) {
    if (first.steps[i].number < 0) break;
    const auto same = std::ranges::find(other.steps, first.steps[i].number, &RankStep::number);
    if (same != other.steps.end()) return (same - other.steps.begin()) - static_cast<std::ptrdiff_t>(i);
  }
  const auto is_numbered = [](const RankSteps& rank) {
    return std::ranges::none_of(
        rank.steps, [](int64_t number) { return number < 0; }, &RankStep::number);
  };
  if (is_numbered(first) && is_numbered(other)) refuse_disjoint();
  // Coupled ranks end a step at about the same time.
  std::vector<double> distances_s;
  const auto ends = [](const RankSteps& rank, std::ptrdiff_t i) {
    return rank.steps[static_cast<size_t>(i)].stamps.end_s;
  };
  const auto count = static_cast<std::ptrdiff_t>(first.steps.size()),
             others = static_cast<std::ptrdiff_t>(other.steps.size());
  std::ptrdiff_t best = 0;
  double least_s = std::numeric_limits<double>::infinity();
  for (std::ptrdiff_t shift = 1 - count; shift < others; ++shift) {
    double sum_s = 0;
    int common = 0;
    for (std::ptrdiff_t i = std::max<std::ptrdiff_t>(0, -shift); i < count && i + shift < others;
         ++i, ++common)
      sum_s += std::abs(ends(first, i) - ends(other, i + shift));
    if (common > 0 && sum_s / common < least_s) {
      least_s = sum_s / common;
      best = shift;
    }
  }
  return best;
}

/// Cuts all ranks to the steps that every one has; returns how many steps were left out at most.
int align(std::vector<PlacedSteps>& ranks) {
  std::vector<std::ptrdiff_t> shifts{0};
  const bool coupled = std::ranges::any_of(ranks, [](const PlacedSteps& rank) {
    return std::ranges::any_of(rank.steps.steps,
                               [](const RankStep& step) { return !step.collectives.empty(); });
  });
  for (size_t i = 1; i < ranks.size(); ++i)
    shifts.push_back(coupled ? shift_of(ranks.front().steps, ranks[i].steps) : 0);
  std::ptrdiff_t first = std::numeric_limits<std::ptrdiff_t>::min(),
                 last = std::numeric_limits<std::ptrdiff_t>::max();
  size_t most = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto count = static_cast<std::ptrdiff_t>(ranks[i].steps.steps.size());
    first = std::max(first, -shifts[i]);
    last = std::min(last, count - shifts[i]);
    most = std::max(most, static_cast<size_t>(count));
  }
  if (first >= last) refuse_disjoint();
  for (size_t i = 0; i < ranks.size(); ++i) {
    std::vector<RankStep>& steps = ranks[i].steps.steps;
    steps.erase(steps.begin() + (last + shifts[i]), steps.end());
    steps.erase(steps.begin(), steps.begin() + (first + shifts[i]));
  }
  return static_cast<int>(most - static_cast<size_t>(last - first));
}

Signature signature_of(const std::vector<Collective>& collectives) {
  Signature signature;
  for (const Collective& each : collectives) signature.emplace_back(each.kind, each.group);
  return signature;
}

/// Leaves only those that make up `usual`, in its order; false: there is one too few.
bool reduce_to(std::vector<Collective>& collectives, const Signature& usual) {
  std::vector<Collective> kept;
  for (const Collective& each : collectives) {
    if (kept.size() < usual.size() && usual[kept.size()] == std::pair(each.kind, each.group))
      kept.push_back(each);
  }
  collectives = std::move(kept);
  return collectives.size() == usual.size();
}

/// Bounds on a clock's offset against the first rank's.
struct Bounds {
  double low_s = -std::numeric_limits<double>::infinity();
  double high_s = std::numeric_limits<double>::infinity();
};

Bounds bounds_of(const RankSteps& first, const RankSteps& other) {
  Bounds bounds;
  for (size_t step = 0; step < first.steps.size(); ++step) {
    for (size_t i = 0; i < first.steps[step].collectives.size(); ++i) {
      const Collective& a = first.steps[step].collectives[i];
      const Collective& b = other.steps[step].collectives[i];
      if (!waits_for_all(a.kind)) continue;
      bounds.low_s = std::max(bounds.low_s, b.begin_s - a.ended_s);
      bounds.high_s = std::min(bounds.high_s, b.ended_s - a.begin_s);
    }
  }
  return bounds;
}

std::vector<results::RecordedGroup> groups_of(const std::vector<PlacedSteps>& ranks) {
  std::map<std::pair<std::string, std::string>, std::map<std::string, size_t>> counts;
  size_t steps = 0;
  for (const PlacedSteps& rank : ranks) {
    for (const RankStep& step : rank.steps.steps) {
      ++steps;
      for (const Collective& each : step.collectives) ++counts[{each.group, each.group_ranks}][each.kind];
    }
  }
  std::vector<results::RecordedGroup> groups;
  for (const auto& [group, kinds] : counts) {
    results::RecordedGroup& found =
        groups.emplace_back(results::RecordedGroup{group.first, group.second, {}});
    for (const auto& [kind, count] : kinds) {
      const double per_step = static_cast<double>(count) / static_cast<double>(steps);
      if (!found.collectives.empty()) found.collectives += ", ";
      found.collectives += fmt::format("{:.3g} {}", per_step, kind);
    }
  }
  return groups;
}

class Together {
 public:
  explicit Together(std::vector<PlacedSteps> ranks) : ranks_(std::move(ranks)) {}

  JobSteps put() {
    job_.irregular_steps = align(ranks_);
    job_.groups = groups_of(ranks_);
    for (PlacedSteps& rank : ranks_) {
      for (RankStep& step : rank.steps.steps) {
        left_out_ += static_cast<size_t>(
            std::erase_if(step.collectives, [&](const Collective& each) { return !involves(each, ranks_); }));
      }
    }
    leave_out_irregular_steps();
    compare_clocks();
    stamp_collectives();
    if (left_out_ > 0)
      job_.notes.emplace_back(
          "Collectives of groups without some of these ranks count as communication of their rank, without "
          "waiting.");
    return std::move(job_);
  }

 private:
  void leave_out_irregular_steps() {
    const std::vector<RankStep>& first = ranks_.front().steps.steps;
    std::map<Signature, int> counts;
    for (const RankStep& step : first) ++counts[signature_of(step.collectives)];
    usual_ = std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; })->first;
    std::vector<bool> regular(first.size(), true);
    for (PlacedSteps& rank : ranks_) {
      for (size_t i = 0; i < regular.size(); ++i) {
        if (!reduce_to(rank.steps.steps[i].collectives, usual_)) regular[i] = false;
      }
    }
    for (size_t i = 0; i < regular.size(); ++i) regular[i] = regular[i] && same_sizes(i);
    const auto kept = std::ranges::count(regular, true);
    if (2 * kept <= std::ssize(regular)) {
      // Ranks that do other things, as stages of a pipeline do, and steps that are never alike.
      usual_.clear();
      for (PlacedSteps& rank : ranks_)
        std::ranges::for_each(rank.steps.steps, [](RankStep& step) { step.collectives.clear(); });
      job_.notes.emplace_back(
          "Steps or ranks differ in their collectives: waiting for other ranks is part of transfer.");
      return;
    }
    job_.irregular_steps += static_cast<int>(regular.size()) - static_cast<int>(kept);
    for (PlacedSteps& rank : ranks_) {
      size_t index = 0;
      std::erase_if(rank.steps.steps, [&](const RankStep&) { return !regular[index++]; });
    }
  }

  /// Whether all ranks sum up as many bytes in each collective of a step.
  bool same_sizes(size_t step) const {
    const std::vector<Collective>& first = ranks_.front().steps.steps[step].collectives;
    for (const PlacedSteps& rank : ranks_) {
      for (size_t i = 0; i < first.size(); ++i) {
        const int64_t own = rank.steps.steps[step].collectives[i].bytes;
        if (first[i].kind == "all-reduce" && own > 0 && first[i].bytes > 0 && own != first[i].bytes)
          return false;
      }
    }
    return true;
  }

  void compare_clocks() {
    bool assumed = false;
    for (PlacedSteps& rank : ranks_) {
      measure::RankStamps& stamps = job_.stamps.emplace_back();
      if (&rank == &ranks_.front()) continue;
      const std::string& host = ranks_.front().host;
      const bool known = !host.empty() && !rank.host.empty();
      if (known && host == rank.host) continue;
      if (!known && usual_.empty()) continue;
      const Bounds bounds = bounds_of(ranks_.front().steps, rank.steps);
      if (!known && bounds.low_s <= 0 && bounds.high_s >= 0) {
        assumed = true;
      } else if (std::isfinite(bounds.low_s)) {
        stamps.clock_offset_s = (bounds.low_s + bounds.high_s) / 2;
        stamps.clock_error_s = std::abs(bounds.high_s - bounds.low_s) / 2;
      } else {
        job_.notes.push_back(fmt::format("The clock of rank {} could not be compared with rank {}'s.",
                                         rank.rank, ranks_.front().rank));
      }
    }
    if (assumed)
      job_.notes.emplace_back(
          "The traces do not name hosts: all ranks are taken to share one clock, which their collectives "
          "allow.");
  }

  void stamp_collectives() {
    for (size_t i = 0; i < usual_.size(); ++i) {
      results::RecordedCollective& collective =
          job_.collectives.emplace_back(results::RecordedCollective{usual_[i].first, usual_[i].second});
      for (const RankStep& step : ranks_.front().steps.steps) {
        collective.bytes = std::max(collective.bytes, step.collectives[i].bytes);
        collective.element_bytes = std::max(collective.element_bytes, step.collectives[i].element_bytes);
      }
    }
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      std::vector<int64_t>& elements = job_.input_elements.emplace_back();
      results::RecordedWork& work = job_.work.emplace_back();
      for (RankStep& step : ranks_[rank].steps.steps) {
        for (const Collective& each : step.collectives)
          step.stamps.collectives.push_back({each.bytes, each.issued_s, each.ended_s, each.lane});
        elements.push_back(step.input_elements);
        work.add(step.work);
        job_.stamps[rank].steps.push_back(std::move(step.stamps));
      }
    }
  }

  std::vector<PlacedSteps> ranks_;
  Signature usual_;
  size_t left_out_ = 0;
  JobSteps job_;
};

}  // namespace

JobSteps put_together(std::vector<PlacedSteps> ranks) {
  return Together(std::move(ranks)).put();
}

}  // namespace lockstep::recordings
