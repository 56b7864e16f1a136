#include "lockstep/results/tables/causes.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/base/units.h"
#include "lockstep/measure/periodic_steps.h"
#include "lockstep/measure/series.h"
#include "lockstep/measure/stretches.h"
#include "lockstep/results/record/summarize.h"
#include "lockstep/results/tables/numbers.h"
#include "lockstep/results/tables/slow_rank.h"

namespace lockstep::results {
namespace {

using Kind = Cause::Kind;

/// The share of a step below which nothing is worth a sentence.
constexpr double kLeastCause = 0.02;
/// An input that takes more of a step than this starves it.
constexpr double kStarved = 0.1;
/// DistributedDataParallel's own size of a bucket that is to leave without delay, in bytes: smaller ones save
/// little.
constexpr int64_t kSmallBucket = int64_t{1} << 20;
/// A device that is idle for more of the time than this has a host that cannot keep up.
constexpr double kIdle = 0.2;

/// Finds the causes of one run, which has a breakdown with ranks.
class Causes {
 public:
  explicit Causes(const Run& run) : run_(run), recorded_(*run.recorded), mean_(run.breakdown->mean) {}

  std::vector<Cause> find() {
    find_slow_rank();
    find_input();
    find_communication();
    find_idle_device();
    find_periodic();
    std::ranges::stable_sort(causes_, std::greater(), &Cause::lost_s);
    return std::move(causes_);
  }

 private:
  void add(Kind kind, double lost_s, std::string text, std::string advice) {
    if (lost_s >= kLeastCause * mean_.step_s)
      causes_.push_back({kind, lost_s, std::move(text), std::move(advice)});
  }

  void find_slow_rank() {
    const auto slow = results::find_slow_rank(run_.breakdown->ranks);
    if (!slow || add_unequal_batches(slow->place, slow->lost_s) || !slow->is_certain) return;
    add(Kind::kSlowRank, slow->lost_s,
        fmt::format("rank {}'s {} takes {} longer than that of the others", recorded_.ranks[slow->place],
                    slow->phase, time_text(slow->longer_s)),
        slow->advice);
  }

  bool add_unequal_batches(size_t place, double lost_s) {
    std::vector<int64_t> others = recorded_.batches;
    if (place >= others.size() || lost_s <= 0) return false;
    const int64_t own = others[place];
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(place));
    const int64_t next = *std::ranges::max_element(others);
    if (own <= next) return false;
    add(Kind::kUnequalBatches, lost_s,
        fmt::format("rank {} trains {} samples in a step, the others {} at most", recorded_.ranks[place], own,
                    next),
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

  /// Transfer of bucket i that nothing hid, mean over ranks.
  double exposed_s(size_t i) const {
    double sum_s = 0;
    for (const RankBreakdown& rank : run_.breakdown->ranks)
      sum_s += i < rank.buckets.size() ? rank.buckets[i].exposed_s : 0;
    return sum_s / static_cast<double>(run_.breakdown->ranks.size());
  }

  /// The time in which at least one of these buckets moves, hidden or not, mean over ranks.
  double moving_s(const std::vector<size_t>& buckets) const {
    double sum_s = 0;
    for (const RankBreakdown& rank : run_.breakdown->ranks) {
      std::vector<measure::Stretch> stretches;
      for (const size_t i : buckets) {
        if (i >= rank.buckets.size()) continue;
        const BucketTimes& times = rank.buckets[i];
        stretches.push_back({std::max(times.started_s, times.all_arrived_s), times.ended_s});
      }
      sum_s += total_s(measure::merged(std::move(stretches)));
    }
    return sum_s / static_cast<double>(run_.breakdown->ranks.size());
  }

  void find_communication() {
    const std::vector<RecordedCollective>& all = recorded_.collectives;
    std::vector<size_t> rest(all.size());
    std::iota(rest.begin(), rest.end(), size_t{0});
    if (rest.empty() || find_reduced_too_often(rest)) return;
    // Broadcasts after the last all-reduce are of updated parameters, not of buffers.
    const auto reduced =
        std::ranges::find(all.rbegin(), all.rend(), "all-reduce", &RecordedCollective::kind).base() -
        all.begin();
    double buffers_s = 0;
    std::erase_if(rest, [&](size_t i) {
      if (all[i].kind != "broadcast" || static_cast<std::ptrdiff_t>(i) >= reduced) return false;
      buffers_s += exposed_s(i);
      return true;
    });
    add(Kind::kBuffers, buffers_s,
        fmt::format("forward passes broadcast buffers for {}", time_text(buffers_s)),
        "DistributedDataParallel(..., broadcast_buffers=False) leaves that out where ranks need no common "
        "running statistics.");
    if (!rest.empty()) find_transfer(rest, mean_.transfer_s - buffers_s);
  }

  /// Finds why `lost_s` of the transfers of these collectives is exposed.
  void find_transfer(const std::vector<size_t>& collectives, double lost_s) {
    const auto bytes_of = [&](size_t i) { return recorded_.collectives[i].bytes; };
    const size_t largest = *std::ranges::max_element(collectives, {}, bytes_of), last = collectives.back();
    int64_t bytes = 0;
    for (const size_t i : collectives) bytes += bytes_of(i);
    const auto covers = [&](size_t i) { return exposed_s(i) >= kCovers * lost_s; };
    const auto rate = [](int64_t moved, double in_s) {
      return in_s > 0 ? static_cast<double>(moved) / in_s / 1e9 : 0;
    };
    const double all_s = moving_s(collectives);
    if (all_s > mean_.backward_s) {
      add(Kind::kSlowLink, lost_s,
          fmt::format("communication takes {} at {:.3g} GB/s, and backward, which could hide it, {}",
                      time_text(all_s), rate(bytes, all_s), time_text(mean_.backward_s)),
          "Look for a faster path between the ranks, send less (a bf16 communication hook), or train more "
          "samples per step.");
    } else if (collectives.size() > 1 && 2 * bytes_of(largest) >= bytes && covers(largest)) {
      add(Kind::kLargeBucket, lost_s,
          fmt::format("one of {} collectives has {} of {} and takes {}", collectives.size(),
                      format_bytes(bytes_of(largest)), format_bytes(bytes), time_text(moving_s({largest}))),
          "A smaller bucket_cap_mb lets its first gradients leave earlier; a single large gradient stays one "
          "bucket.");
    } else if (covers(last) && (bytes_of(last) > kSmallBucket || lost_s >= kStarved * mean_.step_s)) {
      const double last_s = moving_s({last});
      add(Kind::kLateBucket, lost_s,
          fmt::format("the last bucket, of {}, is ready when backward ends, and takes {} at {:.3g} GB/s",
                      format_bytes(bytes_of(last)), time_text(last_s), rate(bytes_of(last), last_s)),
          "A smaller bucket_cap_mb makes the last bucket smaller; more samples per step hide more.");
    }
  }

  /// Each micro-batch has the same all-reduces, of which no_sync() would save all but the last one's. They
  /// cost what they expose, and those that are hidden cores or bandwidth, so that their time decides.
  bool find_reduced_too_often(std::vector<size_t> reduced) {
    const auto passes = static_cast<size_t>(std::max(1, run_.accumulate));
    std::erase_if(reduced, [&](size_t i) { return recorded_.collectives[i].kind != "all-reduce"; });
    if (passes < 2 || reduced.empty() || reduced.size() % passes != 0) return false;
    const size_t own = reduced.size() / passes;
    for (size_t i = own; i < reduced.size(); ++i) {
      if (recorded_.collectives[reduced[i]].bytes != recorded_.collectives[reduced[i - own]].bytes)
        return false;
    }
    reduced.resize(reduced.size() - own);
    const double needless_s = moving_s(reduced);
    if (needless_s < kLeastCause * mean_.step_s) return false;
    causes_.push_back(
        {Kind::kReducedTooOften,
         mean_.exposed_s() * static_cast<double>(passes - 1) / static_cast<double>(passes),
         fmt::format(
             "each of {} micro-batches reduces all gradients, where one all-reduce a step would do: {} of "
             "needless communication, hidden or not",
             passes, time_text(needless_s)),
         "Put every backward pass but the last of a step into DistributedDataParallel's no_sync()."});
    return true;
  }

  /// Finds why a device has nothing to do: the host waits for it first, or issues its kernels too slowly.
  void find_idle_device() {
    std::vector<double> idles, calls, waits, kernels;
    for (const RecordedWork& work : recorded_.work) {
      if (!work.on_device || !(work.window_s > 0)) continue;
      const double steps = std::max(1.0, work.window_s / mean_.step_s);
      idles.push_back(1 - (work.compute_s + work.exposed_s) / work.window_s);
      calls.push_back(work.synchronizations / steps);
      waits.push_back(work.synchronized_s / work.window_s);
      kernels.push_back(work.kernels / steps);
    }
    if (idles.empty()) return;
    const double idle = measure::mean_of(idles), waiting = measure::mean_of(waits);
    if (idle < kIdle) return;
    // Without the calls a step takes as long as the host or the device works, whichever is longer.
    const double synchronizing = std::min(idle, waiting);
    add(Kind::kSynchronizing, synchronizing * mean_.step_s,
        fmt::format("the host waits {} for the device, in {:.0f} calls a step, and the device then for the "
                    "host: it is idle for {} of the time",
                    time_text(waiting * mean_.step_s), measure::mean_of(calls), share_text(idle)),
        "Read losses and metrics (.item(), .cpu(), print) every so many steps, not in each.");
    // The profiler slows the host, not the device.
    const double cost = std::max(1.0, recorded_.window_cost.value_or(1));
    const double bare = 1 - (1 - idle) * cost;
    if (bare < kIdle) return;
    add(Kind::kSlowHost, (bare - synchronizing) * mean_.step_s - mean_.input_s,
        fmt::format("the host is so late with the {:.0f} kernels of a step that the device is idle for {} of "
                    "the time{}",
                    measure::mean_of(kernels), share_text(bare),
                    recorded_.window_cost ? ", the profiler's cost left out" : ""),
        "Give the device fewer and longer kernels: more samples a step, torch.compile (its mode "
        "\"reduce-overhead\" records CUDA graphs), an optimizer with fused=True.");
  }

  void find_periodic() {
    // Warm-up has its periods, too.
    std::vector<double> step_s = per_step_maxima(run_.warmup_samples);
    for (const double each : per_step_maxima(run_.samples)) step_s.push_back(each);
    std::vector<size_t> numbers(step_s.size());
    std::iota(numbers.begin(), numbers.end(), size_t{0});
    // The steps of the profiler's window are missing in between.
    for (size_t& number : numbers) {
      if (static_cast<int>(number) >= recorded_.window_at)
        number += static_cast<size_t>(recorded_.window_steps);
    }
    const auto found = measure::find_periodic_steps(step_s, numbers);
    if (!found) return;
    add(Kind::kPeriodic, found->longer_s * found->count / static_cast<double>(step_s.size()),
        fmt::format("every {} steps one takes {} longer: {}", found->apart, time_text(found->longer_s),
                    recorded_.evaluation_steps > 0
                        ? "evaluation"
                        : "evaluation, a checkpoint, a log or a new epoch, by the looks of it"),
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
