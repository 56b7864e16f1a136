#include "lockstep/measure/phases.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/measure/interval.h"

namespace lockstep::measure {
namespace {

constexpr double kStragglerShare = 0.75;
constexpr double kStragglerWait = 0.02;

/// The sums of the phases, in the order of StepPhase; exposed communication is transfer until the waiting in
/// it is known.
constexpr double PhaseTimes::*kTimes[] = {&PhaseTimes::input_s,     &PhaseTimes::forward_s,
                                          &PhaseTimes::backward_s,  &PhaseTimes::transfer_s,
                                          &PhaseTimes::optimizer_s, &PhaseTimes::other_s};

/// One step of all ranks:
///
///   begin   input   forward     gradients final     combined  applied  end
///     |-------|-------|----------------|----------------|--------|-------|   own.* on one rank's clock
///      input   forward     backward        exposed       optimizer other
///                                             |--|                           applying: optimizer too
///                   issued   all arrived      ended
///   collective i:      |--------|================|                           one of several, in its lane
///                       waiting      transfer
class StepAnalysis {
 public:
  StepAnalysis(const std::vector<RankStamps>& ranks, size_t step, bool alone)
      : ranks_(ranks), step_(step), alone_(alone) {
    size_t collectives = stamps(0).collectives.size();
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      collectives = std::min(collectives, stamps(rank).collectives.size());
    }
    double longest_s = 0;
    for (size_t i = 0; i < collectives; ++i) {
      double first_s = issued_by(0, i), last_s = first_s;
      size_t last_rank = 0;
      for (size_t rank = 1; rank < ranks.size(); ++rank) {
        first_s = std::min(first_s, issued_by(rank, i));
        if (issued_by(rank, i) > last_s) {
          last_s = issued_by(rank, i);
          last_rank = rank;
        }
      }
      all_arrived_s_.push_back(last_s);
      if (last_s - first_s > longest_s) {
        longest_s = last_s - first_s;
        last_to_arrive_ = last_rank;
      }
    }
  }

  const StepStamps& stamps(size_t rank) const { return ranks_[rank].steps[step_]; }
  size_t collectives() const { return all_arrived_s_.size(); }
  /// The last rank to issue the collective that was waited for longest.
  std::optional<size_t> last_to_arrive() const { return last_to_arrive_; }

  /// When the last rank issued collective i, on the clock of `rank`.
  double all_arrived_s(size_t rank, size_t i) const {
    return all_arrived_s_[i] + ranks_[rank].clock_offset_s;
  }

  double started_s(size_t rank, size_t i) const { return turn_s(stamps(rank).collectives, i); }

  /// When collective i moves: its turn came, and all ranks have issued it.
  Stretch transfer(size_t rank, size_t i) const {
    return {std::max(started_s(rank, i), all_arrived_s(rank, i)), stamps(rank).collectives[i].ended_s};
  }

  std::vector<Stretch> exposed(size_t rank) const {
    std::vector<Stretch> stretches;
    for (const PhaseStretch& stretch : phase_stretches(stamps(rank), alone_)) {
      if (stretch.phase == StepPhase::kExposed) stretches.push_back({stretch.begin_s, stretch.end_s});
    }
    return merged(std::move(stretches));
  }

  /// The time in which a collective had its turn and was not complete.
  double communication_s(size_t rank) const {
    std::vector<Stretch> stretches;
    for (size_t i = 0; i < collectives(); ++i) {
      stretches.push_back({started_s(rank, i), stamps(rank).collectives[i].ended_s});
    }
    return total_s(merged(std::move(stretches)));
  }

  PhaseTimes phases(size_t rank) const {
    const StepStamps& own = stamps(rank);
    PhaseTimes times;
    times.step_s = own.end_s - own.begin_s;
    times.input_s = own.earlier_input_s;
    times.forward_s = own.earlier_forward_s;
    times.backward_s = own.earlier_backward_s;
    for (const PhaseStretch& stretch : phase_stretches(own, alone_)) {
      times.*kTimes[static_cast<size_t>(stretch.phase)] += stretch.end_s - stretch.begin_s;
    }
    times.waiting_s = std::min(waiting_s(rank, exposed(rank)), times.transfer_s);
    times.transfer_s -= times.waiting_s;
    return times;
  }

 private:
  /// On rank 0's clock.
  double issued_by(size_t rank, size_t i) const {
    return stamps(rank).collectives[i].issued_s - ranks_[rank].clock_offset_s;
  }

  /// By how much less would have been exposed if every rank had issued each collective when this one did. A
  /// collective that ends in an exposed stretch delays all that this rank issues afterwards.
  double waiting_s(size_t rank, const std::vector<Stretch>& exposed) const {
    const std::vector<CollectiveStamp>& own = stamps(rank).collectives;
    // The end of each collective if no rank had been late since its issue, and all delay until its end.
    std::vector<double> punctual_s, delay_s;
    double most_s = 0;
    for (size_t i = 0; i < collectives(); ++i) {
      double lane_free_s = own[i].issued_s, delay_before_s = 0;
      for (size_t before = 0; before < i; ++before) {
        if (own[before].lane == own[i].lane) lane_free_s = std::max(lane_free_s, punctual_s[before]);
        if (own[before].ended_s <= own[i].issued_s)
          delay_before_s = std::max(delay_before_s, delay_s[before]);
      }
      punctual_s.push_back(lane_free_s + std::max(0.0, own[i].ended_s - transfer(rank, i).begin_s));
      // What was exposed while it was late. Nothing waits for one that ends where something else computes.
      const bool blocks = std::ranges::any_of(exposed, [&](const Stretch& stretch) {
        return own[i].ended_s > stretch.begin_s && own[i].ended_s <= stretch.end_s;
      });
      delay_s.push_back(
          blocks ? delay_before_s +
                       total_s(within(exposed, std::min(punctual_s[i], own[i].ended_s), own[i].ended_s))
                 : 0);
      most_s = std::max(most_s, delay_s.back());
    }
    return most_s;
  }

  const std::vector<RankStamps>& ranks_;
  size_t step_;
  bool alone_;
  std::vector<double> all_arrived_s_;
  std::optional<size_t> last_to_arrive_;
};

/// One over the number of steps that have each bucket: with local SGD only some steps send.
std::vector<double> weights_of_buckets(const std::vector<RankStamps>& ranks, size_t steps) {
  std::vector<double> weights;
  for (size_t i = 0; i < steps; ++i) {
    const size_t buckets = StepAnalysis(ranks, i, /*alone=*/true).collectives();
    weights.resize(std::max(weights.size(), buckets), 0);
    for (size_t bucket = 0; bucket < buckets; ++bucket) ++weights[bucket];
  }
  for (double& weight : weights) weight = 1 / weight;
  return weights;
}

/// Adds what a bucket took in one of the steps that have it. `weights`: of every bucket, 1 over their number.
void add_buckets(std::vector<BucketTimes>& mean, const StepAnalysis& step, size_t rank,
                 const std::vector<double>& weights) {
  mean.resize(weights.size());
  const double begin_s = step.stamps(rank).begin_s;
  const std::vector<Stretch> exposed = step.exposed(rank);
  for (size_t i = 0; i < step.collectives(); ++i) {
    const CollectiveStamp& stamp = step.stamps(rank).collectives[i];
    const double weight = weights[i];
    mean[i].bytes = stamp.bytes;
    mean[i].ready_s += weight * (stamp.issued_s - begin_s);
    mean[i].started_s += weight * (step.started_s(rank, i) - begin_s);
    mean[i].all_arrived_s += weight * (step.all_arrived_s(rank, i) - begin_s);
    mean[i].ended_s += weight * (stamp.ended_s - begin_s);
    const Stretch transfer = step.transfer(rank, i);
    mean[i].exposed_s += weight * total_s(within(exposed, transfer.begin_s, transfer.end_s));
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

/// How wrong the mean waiting over ranks may be because the ranks' clocks are compared by estimates: a rank's
/// waiting depends on when the others issued, each known to within the errors of both clocks. 0 on one host.
double clock_bound_s(const std::vector<RankStamps>& ranks) {
  double bound_s = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    double others_s = 0;
    for (size_t other = 0; other < ranks.size(); ++other) {
      if (other != rank) others_s = std::max(others_s, ranks[other].clock_error_s);
    }
    bound_s += ranks.size() > 1 ? ranks[rank].clock_error_s + others_s : 0;
  }
  return bound_s / static_cast<double>(ranks.size());
}

/// A bound on a systematic error adds to the scatter, which more steps make smaller.
std::optional<double> widened(const std::optional<double>& half_width_s, double bound_s) {
  return half_width_s ? std::optional(*half_width_s + bound_s) : std::nullopt;
}

void check_same_steps(const std::vector<RankStamps>& ranks) {
  for (const RankStamps& rank : ranks) {
    if (rank.steps.empty() || rank.steps.size() != ranks.front().steps.size()) {
      throw Error(fmt::format("a breakdown needs the same steps of every rank, but one has {} and another {}",
                              ranks.front().steps.size(), rank.steps.size()));
    }
  }
}

/// The time at which the last gradient of a step is final: the last collective is issued, or autograd
/// returns, whichever comes first.
double gradients_final_s(const StepStamps& step) {
  if (step.collectives.empty()) return step.backward_s;
  return std::clamp(step.collectives.back().issued_s, step.forward_s, step.backward_s);
}

}  // namespace

void PhaseTimes::add(const PhaseTimes& times, double weight) {
  for (double PhaseTimes::*phase :
       {&PhaseTimes::input_s, &PhaseTimes::forward_s, &PhaseTimes::backward_s, &PhaseTimes::waiting_s,
        &PhaseTimes::transfer_s, &PhaseTimes::optimizer_s, &PhaseTimes::other_s, &PhaseTimes::step_s}) {
    this->*phase += weight * times.*phase;
  }
}

void ProcessorTimes::add(const ProcessorTimes& times, double weight) {
  before_s += weight * times.before_s;
  backward_s += weight * times.backward_s;
  optimizer_s += weight * times.optimizer_s;
}

void PhaseSeries::add(const PhaseTimes& times) {
  for (const auto& [list, phase] : {std::pair{&PhaseSeries::input_s, &PhaseTimes::input_s},
                                    {&PhaseSeries::forward_s, &PhaseTimes::forward_s},
                                    {&PhaseSeries::backward_s, &PhaseTimes::backward_s},
                                    {&PhaseSeries::waiting_s, &PhaseTimes::waiting_s},
                                    {&PhaseSeries::transfer_s, &PhaseTimes::transfer_s},
                                    {&PhaseSeries::optimizer_s, &PhaseTimes::optimizer_s},
                                    {&PhaseSeries::other_s, &PhaseTimes::other_s},
                                    {&PhaseSeries::step_s, &PhaseTimes::step_s}})
    (this->*list).push_back(times.*phase);
}

void StepStamps::add_earlier_micro_batch(double began_s) {
  const double forward_communicating_s = total_s(within(communicating, input_s, forward_s));
  const double backward_communicating_s = total_s(within(communicating, forward_s, backward_s));
  earlier_input_s += input_s - began_s;
  earlier_forward_s += forward_s - input_s - forward_communicating_s;
  earlier_backward_s += backward_s - forward_s - backward_communicating_s;
  earlier_communicating_s += forward_communicating_s + backward_communicating_s;
}

std::vector<PhaseStretch> phase_stretches(const StepStamps& step, bool alone) {
  if (!step.phases.empty()) {
    std::vector<PhaseStretch> stretches = step.phases;
    for (PhaseStretch& each : stretches) {
      if (alone && each.phase == StepPhase::kExposed) each.phase = StepPhase::kOther;
    }
    return stretches;
  }
  const double last_s = step.last_micro_batch_s();
  std::vector<PhaseStretch> stretches;
  std::vector<PhaseStretch> within;
  for (const Stretch& stretch : step.communicating) {
    auto& place = stretch.begin_s < last_s ? stretches : within;
    place.push_back({StepPhase::kExposed, stretch.begin_s, stretch.end_s});
  }
  for (const Stretch& stretch : step.applying) {
    within.push_back({StepPhase::kOptimizer, stretch.begin_s, stretch.end_s});
  }
  std::ranges::sort(within, {}, &PhaseStretch::begin_s);

  double at_s = last_s;
  const auto add = [&](StepPhase phase, double end_s) {
    if (end_s > at_s) stretches.push_back({phase, at_s, end_s});
    at_s = std::max(at_s, end_s);
  };
  const auto add_cut = [&](StepPhase phase, double end_s) {
    for (const PhaseStretch& cut : within) {
      if (cut.end_s <= at_s || cut.begin_s >= end_s) continue;
      add(phase, cut.begin_s);
      add(cut.phase, std::min(cut.end_s, end_s));
    }
    add(phase, end_s);
  };
  add_cut(StepPhase::kInput, step.input_s);
  add_cut(StepPhase::kForward, step.forward_s);
  add_cut(StepPhase::kBackward, alone ? step.backward_s : gradients_final_s(step));
  add_cut(alone ? StepPhase::kOther : StepPhase::kExposed, step.combined_s);
  add_cut(StepPhase::kOptimizer, step.applied_s);
  add_cut(StepPhase::kOther, step.end_s);
  return stretches;
}

double turn_s(const std::vector<CollectiveStamp>& collectives, size_t index) {
  const CollectiveStamp& own = collectives[index];
  for (size_t before = index; before-- > 0;) {
    if (collectives[before].lane == own.lane) return std::max(own.issued_s, collectives[before].ended_s);
  }
  return own.issued_s;
}

std::optional<double> Breakdown::overlap() const {
  // A single rank has only the overhead of its calls.
  if (communication_s <= 0 || ranks.size() == 1) return std::nullopt;
  // Exposed time includes the strategy's own work between collectives, so it may exceed the total.
  return std::max(0.0, 1 - mean.exposed_s() / communication_s);
}

Breakdown break_down(const std::vector<RankStamps>& ranks, size_t job_ranks) {
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
  const std::vector<double> weights = weights_of_buckets(ranks, steps);
  std::vector<double> waiting_s(steps, 0), transfer_s(steps, 0);
  for (size_t i = 0; i < steps; ++i) {
    const StepAnalysis step(ranks, i, std::max(ranks.size(), job_ranks) == 1);
    if (step.last_to_arrive()) ++times_last[*step.last_to_arrive()];
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const PhaseTimes phases = step.phases(rank);
      result.ranks[rank].mean.add(phases, per_step);
      result.ranks[rank].series.add(phases);
      result.ranks[rank].processor.add(step.stamps(rank).processor, per_step);
      result.mean.add(phases, per_step * per_rank);
      waiting_s[i] += phases.waiting_s * per_rank;
      transfer_s[i] += phases.transfer_s * per_rank;
      add_buckets(result.ranks[rank].buckets, step, rank, weights);
      result.communication_s += step.communication_s(rank) * per_step * per_rank;
    }
  }

  // All that is not waiting is transfer, so both are off by as much.
  result.waiting_half_width_s = widened(half_width_of_mean(waiting_s), clock_bound_s(ranks));
  result.transfer_half_width_s = widened(half_width_of_mean(transfer_s), clock_bound_s(ranks));

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
