#include "lockstep/measure/phases.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/measure/interval.h"

namespace lockstep::measure {
namespace {

constexpr double kStragglerShare = 0.75;
constexpr double kStragglerWait = 0.02;

/// A stretch of time on one clock.
struct Stretch {
  double begin_s = 0;
  double end_s = 0;
};

/// One step of all ranks:
///
///   begin   input   forward     gradients final     combined  applied  end
///     |-------|-------|----------------|----------------|--------|-------|   own.* on one rank's clock
///      input   forward     backward        exposed       optimizer other
///                   issued   all arrived      ended
///   collective i:      |--------|================|                           one of several, in its lane
///                       waiting      transfer
class StepAnalysis {
 public:
  StepAnalysis(const std::vector<RankStamps>& ranks, size_t step) : ranks_(ranks), step_(step) {
    size_t collectives = stamps(0).collectives.size();
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      collectives = std::min(collectives, stamps(rank).collectives.size());
    }
    for (size_t i = 0; i < collectives; ++i) {
      double last_s = issued_by(0, i);
      size_t last_rank = 0;
      for (size_t rank = 1; rank < ranks.size(); ++rank) {
        if (issued_by(rank, i) > last_s) {
          last_s = issued_by(rank, i);
          last_rank = rank;
        }
      }
      all_arrived_s_.push_back(last_s);
      last_to_arrive_ = last_rank;
    }
  }

  const StepStamps& stamps(size_t rank) const { return ranks_[rank].steps[step_]; }
  size_t collectives() const { return all_arrived_s_.size(); }
  /// The last rank to issue the step's last collective.
  std::optional<size_t> last_to_arrive() const { return last_to_arrive_; }

  /// When the last rank issued collective i, on the clock of `rank`.
  double all_arrived_s(size_t rank, size_t i) const {
    return all_arrived_s_[i] + ranks_[rank].clock_offset_s;
  }

  double started_s(size_t rank, size_t i) const { return turn_s(stamps(rank).collectives, i); }

  /// The union of the stretches from each collective's turn to its end.
  double communication_s(size_t rank) const {
    std::vector<Stretch> stretches;
    for (size_t i = 0; i < collectives(); ++i) {
      stretches.push_back({started_s(rank, i), stamps(rank).collectives[i].ended_s});
    }
    std::ranges::sort(stretches, {}, &Stretch::begin_s);
    double sum_s = 0;
    double counted_until_s = stretches.empty() ? 0 : stretches.front().begin_s;
    for (const Stretch& stretch : stretches) {
      sum_s += std::max(0.0, stretch.end_s - std::max(stretch.begin_s, counted_until_s));
      counted_until_s = std::max(counted_until_s, stretch.end_s);
    }
    return sum_s;
  }

  PhaseTimes phases(size_t rank) const {
    const StepStamps& own = stamps(rank);
    const Stretch exposed{gradients_final_s(own), own.combined_s};
    // The union of the stretches in which a collective that this rank has issued waits for the last rank.
    double waiting_s = 0;
    double counted_until_s = exposed.begin_s;
    for (size_t i = 0; i < collectives(); ++i) {
      const double from_s = std::max(own.collectives[i].issued_s, counted_until_s);
      const double until_s = std::min(all_arrived_s(rank, i), exposed.end_s);
      if (until_s <= from_s) continue;
      waiting_s += until_s - from_s;
      counted_until_s = until_s;
    }
    PhaseTimes times;
    times.step_s = own.end_s - own.begin_s;
    times.input_s = own.earlier_input_s + own.input_s - own.last_micro_batch_s();
    times.forward_s = own.earlier_forward_s + own.forward_s - own.input_s;
    times.backward_s = own.earlier_backward_s + exposed.begin_s - own.forward_s;
    times.waiting_s = waiting_s;
    times.transfer_s = exposed.end_s - exposed.begin_s - waiting_s;
    times.optimizer_s = own.applied_s - own.combined_s;
    times.other_s = own.end_s - own.applied_s;
    return times;
  }

 private:
  /// On rank 0's clock.
  double issued_by(size_t rank, size_t i) const {
    return stamps(rank).collectives[i].issued_s - ranks_[rank].clock_offset_s;
  }

  const std::vector<RankStamps>& ranks_;
  size_t step_;
  std::vector<double> all_arrived_s_;
  std::optional<size_t> last_to_arrive_;
};

void add_buckets(std::vector<BucketTimes>& mean, const StepAnalysis& step, size_t rank, double weight) {
  if (mean.size() < step.collectives()) mean.resize(step.collectives());
  const double begin_s = step.stamps(rank).begin_s;
  for (size_t i = 0; i < step.collectives(); ++i) {
    const CollectiveStamp& stamp = step.stamps(rank).collectives[i];
    mean[i].bytes = stamp.bytes;
    mean[i].ready_s += weight * (stamp.issued_s - begin_s);
    mean[i].started_s += weight * (step.started_s(rank, i) - begin_s);
    mean[i].all_arrived_s += weight * (step.all_arrived_s(rank, i) - begin_s);
    mean[i].ended_s += weight * (stamp.ended_s - begin_s);
  }
}

/// Half-width of the 95 % interval. A breakdown is short, so this asks how certain the mean of these very
/// steps is, whether or not they had settled.
std::optional<double> half_width_of_mean(const std::vector<double>& per_step_s) {
  if (std::ranges::all_of(per_step_s, [&](double s) { return s == per_step_s.front(); })) return 0.0;
  const Estimate mean = mean_estimate(per_step_s, {.check_settled = false});
  if (!mean.interval) return std::nullopt;
  return (mean.interval->upper - mean.interval->lower) / 2;
}

void check_same_steps(const std::vector<RankStamps>& ranks) {
  for (const RankStamps& rank : ranks) {
    if (rank.steps.empty() || rank.steps.size() != ranks.front().steps.size()) {
      throw Error(fmt::format("a breakdown needs the same steps of every rank, but one has {} and another {}",
                              ranks.front().steps.size(), rank.steps.size()));
    }
  }
}

}  // namespace

void PhaseTimes::add(const PhaseTimes& times, double weight) {
  for (double PhaseTimes::*phase :
       {&PhaseTimes::input_s, &PhaseTimes::forward_s, &PhaseTimes::backward_s, &PhaseTimes::waiting_s,
        &PhaseTimes::transfer_s, &PhaseTimes::optimizer_s, &PhaseTimes::other_s, &PhaseTimes::step_s}) {
    this->*phase += weight * times.*phase;
  }
}

double turn_s(const std::vector<CollectiveStamp>& collectives, size_t index) {
  const CollectiveStamp& own = collectives[index];
  for (size_t before = index; before-- > 0;) {
    if (collectives[before].lane == own.lane) return std::max(own.issued_s, collectives[before].ended_s);
  }
  return own.issued_s;
}

double gradients_final_s(const StepStamps& step) {
  if (step.collectives.empty()) return step.backward_s;
  return std::clamp(step.collectives.back().issued_s, step.forward_s, step.backward_s);
}

std::optional<double> Breakdown::overlap() const {
  // One rank has nobody to communicate with, only the overhead of its calls.
  if (communication_s <= 0 || ranks.size() == 1) return std::nullopt;
  // Exposed time includes the strategy's own work between collectives, so it may exceed the total.
  return std::max(0.0, 1 - mean.exposed_s() / communication_s);
}

Breakdown break_down(const std::vector<RankStamps>& ranks) {
  if (ranks.empty()) throw Error("a breakdown needs at least one rank");
  check_same_steps(ranks);
  const size_t steps = ranks.front().steps.size();
  const double per_step = 1.0 / static_cast<double>(steps);
  const double per_rank = 1.0 / static_cast<double>(ranks.size());

  Breakdown result;
  result.steps = static_cast<int>(steps);
  for (const RankStamps& rank : ranks) {
    result.ranks.push_back({.mean = {},
                            .buckets = {},
                            .clock_offset_s = rank.clock_offset_s,
                            .clock_error_s = rank.clock_error_s});
  }
  std::vector<size_t> times_last(ranks.size(), 0);
  std::vector<double> waiting_s(steps, 0), transfer_s(steps, 0);
  for (size_t i = 0; i < steps; ++i) {
    const StepAnalysis step(ranks, i);
    if (step.last_to_arrive()) ++times_last[*step.last_to_arrive()];
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const PhaseTimes phases = step.phases(rank);
      result.ranks[rank].mean.add(phases, per_step);
      result.mean.add(phases, per_step * per_rank);
      waiting_s[i] += phases.waiting_s * per_rank;
      transfer_s[i] += phases.transfer_s * per_rank;
      add_buckets(result.ranks[rank].buckets, step, rank, per_step);
      result.communication_s += step.communication_s(rank) * per_step * per_rank;
    }
  }

  result.waiting_half_width_s = half_width_of_mean(waiting_s);
  result.transfer_half_width_s = half_width_of_mean(transfer_s);

  const auto most = std::max_element(times_last.begin(), times_last.end());
  const auto candidate = static_cast<size_t>(most - times_last.begin());
  double others_wait_s = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (rank != candidate) others_wait_s += result.ranks[rank].mean.waiting_s;
  }
  const bool stands_out =
      ranks.size() > 1 && static_cast<double>(*most) >= kStragglerShare * static_cast<double>(steps) &&
      others_wait_s / static_cast<double>(ranks.size() - 1) >= kStragglerWait * result.mean.step_s;
  if (stands_out) result.straggler = static_cast<int>(candidate);
  return result;
}

}  // namespace lockstep::measure
