#include "lockstep/results/tables/causes.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/results/record/summarize.h"
#include "lockstep/results/tables/numbers.h"

namespace lockstep::results {
namespace {

using Kind = Cause::Kind;

/// The share of a loss that a cause must explain to be named.
constexpr double kCovers = 0.8;
/// The share of a step below which nothing is worth a sentence.
constexpr double kLeastCause = 0.02;
/// An input that takes more of a step than this starves it.
constexpr double kStarved = 0.1;
/// A device that is idle for more of the time than this has a host that cannot keep up.
constexpr double kIdle = 0.2;
/// A step that takes this much longer than the median is another kind of step.
constexpr double kLongStep = 1.3;

/// The share of the distances between long steps that must be alike.
constexpr double kRegular = 0.6;

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(std::max<size_t>(1, values.size()));
}

/// Finds the causes of one run, which has a breakdown with ranks.
class Causes {
 public:
  explicit Causes(const Run& run) : run_(run), recorded_(*run.recorded), mean_(run.breakdown->mean) {}

  std::vector<Cause> find() {
    find_slow_rank();
    find_input();
    find_communication();
    find_synchronizing();
    find_periodic();
    std::erase_if(causes_, [&](const Cause& cause) { return !(cause.lost_s >= kLeastCause * mean_.step_s); });
    std::ranges::stable_sort(causes_, std::greater(), &Cause::lost_s);
    return std::move(causes_);
  }

 private:
  struct NamedPhase {
    const char* name;
    double PhaseTimes::*seconds;
    const char* advice;
  };

  void add(Kind kind, double lost_s, std::string text, std::string advice) {
    causes_.push_back({kind, lost_s, std::move(text), std::move(advice)});
  }

  void find_slow_rank() {
    if (!run_.breakdown->straggler) return;
    const int rank = *run_.breakdown->straggler;
    const auto place = std::ranges::find(recorded_.ranks, rank) - recorded_.ranks.begin();
    const std::vector<RankBreakdown>& ranks = run_.breakdown->ranks;
    if (ranks.size() < 2 || place >= std::ssize(ranks)) return;
    const auto others = [&](double PhaseTimes::*phase) {
      double sum_s = 0;
      for (std::ptrdiff_t i = 0; i < std::ssize(ranks); ++i)
        sum_s += i == place ? 0 : ranks[static_cast<size_t>(i)].mean.*phase;
      return sum_s / static_cast<double>(ranks.size() - 1);
    };
    const double waited_s = others(&PhaseTimes::waiting_s);
    static constexpr std::array<NamedPhase, 3> kPhasesOfARank{
        {{"input", &PhaseTimes::input_s,
          "Look at that rank's DataLoader: workers, disk, and the size of its samples."},
         {"forward pass", &PhaseTimes::forward_s,
          "Compare that rank's device and its samples with the others'."},
         {"backward pass", &PhaseTimes::backward_s,
          "Compare that rank's device, its clock and its load with the others'."}}};
    const NamedPhase* longest = nullptr;
    double longer_s = 0;
    for (const NamedPhase& phase : kPhasesOfARank) {
      const double by_s = ranks[static_cast<size_t>(place)].mean.*phase.seconds - others(phase.seconds);
      if (by_s <= longer_s) continue;
      longest = &phase;
      longer_s = by_s;
    }
    if (add_unequal_batches(place, waited_s) || longest == nullptr || longer_s < kCovers * waited_s) return;
    add(Kind::kSlowRank, mean_.waiting_s,
        fmt::format("rank {}'s {} takes {} longer than that of the others", rank, longest->name,
                    time_text(longer_s)),
        longest->advice);
  }

  bool add_unequal_batches(std::ptrdiff_t place, double waited_s) {
    const std::vector<int64_t>& batches = recorded_.batches;
    if (place >= std::ssize(batches) || waited_s <= 0) return false;
    std::vector<int64_t> others = batches;
    others.erase(others.begin() + place);
    const int64_t own = batches[static_cast<size_t>(place)], next = *std::ranges::max_element(others);
    if (own <= next) return false;
    add(Kind::kUnequalBatches, mean_.waiting_s,
        fmt::format("rank {} trains {} samples in a step, the others {} at most",
                    recorded_.ranks[static_cast<size_t>(place)], own, next),
        "Give every rank as many samples: DistributedSampler, and drop_last=True.");
    return true;
  }

  void find_input() {
    // Waiting for a slow rank's input is that rank's.
    double least_s = mean_.input_s;
    for (const RankBreakdown& rank : run_.breakdown->ranks) least_s = std::min(least_s, rank.mean.input_s);
    if (least_s < kStarved * mean_.step_s) return;
    add(Kind::kInput, least_s, fmt::format("every step waits {} for its batch", time_text(least_s)),
        "Give the DataLoader more workers (num_workers), persistent_workers=True and pin_memory=True, or "
        "decode less.");
  }

  /// [bucket]: from the arrival of all ranks to the end, mean over ranks.
  std::vector<double> transfers() const {
    std::vector<double> all(recorded_.collectives.size(), 0);
    const auto& ranks = run_.breakdown->ranks;
    for (const RankBreakdown& rank : ranks) {
      for (size_t i = 0; i < std::min(all.size(), rank.buckets.size()); ++i) {
        const BucketTimes& times = rank.buckets[i];
        all[i] += std::max(0.0, times.ended_s - std::max(times.started_s, times.all_arrived_s)) /
                  static_cast<double>(ranks.size());
      }
    }
    return all;
  }

  void find_communication() {
    const double exposed_s = mean_.transfer_s;
    if (exposed_s < kLeastCause * mean_.step_s || recorded_.collectives.empty()) return;
    const std::vector<double> transfer_s = transfers();
    double all_s = 0, broadcast_s = 0, bytes = 0;
    size_t largest = 0, last = 0;
    for (size_t i = 0; i < transfer_s.size(); ++i) {
      all_s += transfer_s[i];
      bytes += static_cast<double>(recorded_.collectives[i].bytes);
      if (recorded_.collectives[i].kind == "broadcast") broadcast_s += transfer_s[i];
      if (recorded_.collectives[i].bytes > recorded_.collectives[largest].bytes) largest = i;
      if (transfer_s[i] > 0) last = i;
    }
    if (const double saved_s = reduced_too_often_s(); saved_s > 0) {
      add(Kind::kReducedTooOften, saved_s,
          fmt::format("each of {} micro-batches reduces all gradients, where one all-reduce a step would do",
                      run_.accumulate),
          "Put every backward pass but the last of a step into DistributedDataParallel's no_sync().");
      return;
    }
    if (broadcast_s >= kCovers * exposed_s) {
      add(Kind::kBuffers, std::min(broadcast_s, exposed_s),
          fmt::format("forward passes broadcast buffers for {}", time_text(broadcast_s)),
          "DistributedDataParallel(..., broadcast_buffers=False) leaves that out where ranks need no common "
          "running statistics.");
      return;
    }
    const double rate = all_s > 0 ? bytes / all_s / 1e9 : 0;
    const auto of = [&](size_t i) { return static_cast<double>(recorded_.collectives[i].bytes); };
    const double hiding_s = mean_.backward_s;
    if (all_s > hiding_s) {
      add(Kind::kSlowLink, exposed_s,
          fmt::format("communication takes {} at {:.3g} GB/s, and backward, which could hide it, {}",
                      time_text(all_s), rate, time_text(hiding_s)),
          "Look for a faster path between the ranks, send less (a bf16 communication hook), or train more "
          "samples per step.");
    } else if (transfer_s.size() > 1 && of(largest) >= 0.5 * bytes &&
               transfer_s[largest] >= kCovers * exposed_s) {
      add(Kind::kLargeBucket, exposed_s,
          fmt::format("one of {} collectives has {} of {} and takes {}", transfer_s.size(),
                      format_bytes(recorded_.collectives[largest].bytes),
                      format_bytes(static_cast<int64_t>(bytes)), time_text(transfer_s[largest])),
          "A smaller bucket_cap_mb lets its first gradients leave earlier; a single large gradient stays one "
          "bucket.");
    } else if (transfer_s[last] >= kCovers * exposed_s) {
      add(Kind::kLateBucket, exposed_s,
          fmt::format("the last bucket, of {}, is ready when backward ends, and takes {} at {:.3g} GB/s",
                      format_bytes(recorded_.collectives[last].bytes), time_text(transfer_s[last]),
                      transfer_s[last] > 0 ? of(last) / transfer_s[last] / 1e9 : 0),
          "A smaller bucket_cap_mb makes the last bucket smaller; more samples per step hide more.");
    }
  }

  /// The transfer of a step that no_sync() would save; 0: none.
  double reduced_too_often_s() const {
    std::vector<int64_t> sizes;
    for (const RecordedCollective& each : recorded_.collectives) {
      if (each.kind == "all-reduce") sizes.push_back(each.bytes);
    }
    const auto passes = static_cast<size_t>(std::max(1, run_.accumulate));
    if (passes < 2 || sizes.size() < passes || sizes.size() % passes != 0) return 0;
    const size_t own = sizes.size() / passes;
    for (size_t i = own; i < sizes.size(); ++i) {
      if (sizes[i] != sizes[i - own]) return 0;
    }
    return mean_.exposed_s() * static_cast<double>(passes - 1) / static_cast<double>(passes);
  }

  void find_synchronizing() {
    std::vector<double> idle, calls;
    for (const RecordedWork& work : recorded_.work) {
      if (!work.on_device || !(work.window_s > 0)) continue;
      idle.push_back(1 - (work.compute_s + work.exposed_s) / work.window_s);
      calls.push_back(work.synchronizations / std::max(1.0, work.window_s / mean_.step_s));
    }
    if (idle.empty() || mean_of(idle) < kIdle || mean_of(calls) < 2) return;
    add(Kind::kSynchronizing, mean_of(idle) * mean_.step_s,
        fmt::format("the device is idle for {} of the time, and the host waits for it {:.0f} times a step",
                    share_text(mean_of(idle)), mean_of(calls)),
        "Read losses and metrics (.item(), .cpu(), print) every so many steps, not in each.");
  }

  void find_periodic() {
    const std::vector<double> step_s = per_step_maxima(run_.samples);
    if (step_s.size() < 8) return;
    std::vector<double> sorted = step_s;
    std::ranges::nth_element(sorted, sorted.begin() + std::ssize(sorted) / 2);
    const double median_s = sorted[sorted.size() / 2];
    std::vector<size_t> places;
    double excess_s = 0;
    for (size_t i = 0; i < step_s.size(); ++i) {
      if (step_s[i] < kLongStep * median_s) continue;
      places.push_back(i);
      excess_s += step_s[i] - median_s;
    }
    if (places.size() < 3) return;
    std::map<size_t, size_t> gaps;
    for (size_t i = 1; i < places.size(); ++i) ++gaps[places[i] - places[i - 1]];
    const auto [apart, count] =
        *std::ranges::max_element(gaps, {}, [](const auto& gap) { return gap.second; });
    // Steps of the profiler's window are missing in between, and a step may be long by chance.
    if (apart < 2 || count < 2 ||
        static_cast<double>(count) < kRegular * static_cast<double>(places.size() - 1))
      return;
    add(Kind::kPeriodic, excess_s / static_cast<double>(step_s.size()),
        fmt::format(
            "every {} steps one takes {} longer: evaluation, a checkpoint or a log, by the looks of it",
            apart, time_text(excess_s / static_cast<double>(places.size()))),
        "Do that less often, or beside the training.");
  }

  const Run& run_;
  const Recorded& recorded_;
  const PhaseTimes& mean_;
  std::vector<Cause> causes_;
};

}  // namespace

std::vector<Cause> causes_of(const Run& run) {
  if (!run.recorded || !run.breakdown || run.breakdown->ranks.empty() || !(run.breakdown->mean.step_s > 0))
    return {};
  return Causes(run).find();
}

}  // namespace lockstep::results
