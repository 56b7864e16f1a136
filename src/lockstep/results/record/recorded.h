#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/base/fields.h"
#include "lockstep/measure/phases.h"

namespace lockstep::results {

using measure::Breakdown;
using measure::BucketTimes;
using measure::PhaseTimes;
using measure::RankBreakdown;

/// When a rank's bucket moves, in seconds after the begin of a step: from the arrival of the last rank to its
/// end, as far as that is in the step.
inline measure::Stretch moving(const RankBreakdown& rank, size_t bucket) {
  if (bucket >= rank.buckets.size()) return {};
  const BucketTimes& times = rank.buckets[bucket];
  return {std::min(std::max(times.started_s, times.all_arrived_s), rank.mean.step_s),
          std::min(times.ended_s, rank.mean.step_s)};
}

/// A 95 % interval in the unit of its quantity, or the reason why there is none ("not enough data").
struct Interval {
  double low = 0;
  double high = 0;
  std::string missing;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& interval) {
    if constexpr (std::is_const_v<Self>) {
      const bool known = interval.missing.empty();
      fields("low", known ? std::optional(interval.low) : std::nullopt);
      fields("high", known ? std::optional(interval.high) : std::nullopt);
      fields("missing", interval.missing, kNullable);
    } else {
      fields("missing", interval.missing);
      if (!interval.missing.empty()) return;
      fields("low", interval.low, kRequired);
      fields("high", interval.high, kRequired);
    }
  }
};

/// Factors whose product is the efficiency (docs/measuring.md).
struct EfficiencyFactors {
  double machine = 1;
  double strategy = 1;
  double transfer = 1;
  double stragglers = 1;

  /// Half the width of each factor's 95 % interval; empty where one of the times behind it has none.
  struct HalfWidths {
    std::optional<double> machine, strategy, transfer, stragglers;
  } half_width;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& factors) {
    const auto factor = [&](const char* key, auto& value, auto& half) {
      fields.group(
          key,
          [&](auto& inner) {
            inner("value", value, kRequired);
            inner("half_width", half);
          },
          kRequired);
    };
    factor("machine", factors.machine, factors.half_width.machine);
    factor("strategy", factors.strategy, factors.half_width.strategy);
    factor("transfer", factors.transfer, factors.half_width.transfer);
    factor("stragglers", factors.stragglers, factors.half_width.stragglers);
  }
};

/// Name of a recorded network that nothing names.
inline constexpr const char* kUnnamed = "training";

/// Work of one rank in the steps that phases rest on, as unions of times, in seconds.
struct RecordedWork {
  /// By the device's kernels; otherwise by operations on the host.
  bool on_device = false;
  /// The steps.
  double window_s = 0;
  double communication_s = 0;
  /// Communication while nothing computes.
  double exposed_s = 0;
  double compute_s = 0;
  /// Calls in which the training's threads wait for the device, copies that block included, and their time
  /// without that in which a collective runs. A backend's do not count.
  int synchronizations = 0;
  double synchronized_s = 0;
  /// Launched on the device.
  int kernels = 0;

  LOCKSTEP_DESCRIBE(kOptional, on_device, window_s, communication_s, exposed_s, compute_s, synchronizations,
                    synchronized_s, kernels)

  void add(const RecordedWork& step) {
    on_device = step.on_device;
    window_s += step.window_s;
    communication_s += step.communication_s;
    exposed_s += step.exposed_s;
    compute_s += step.compute_s;
    synchronizations += step.synchronizations;
    synchronized_s += step.synchronized_s;
    kernels += step.kernels;
  }
};

/// One collective of every step, in the order of the breakdown's buckets.
struct RecordedCollective {
  /// "all-reduce", "all-gather", "broadcast", ...
  std::string kind;
  /// Name of the process group; empty: the trace does not say.
  std::string group;
  /// 0: the trace does not say.
  int64_t bytes = 0;
  /// Of one element; 0: the trace does not say.
  int element_bytes = 0;

  LOCKSTEP_DESCRIBE(kOptional, kind, group, bytes, element_bytes)
};

/// A process group, or the collectives of the trace that belong to it.
struct RecordedGroup {
  std::string name;
  /// As PyTorch lists it: "[0, 1]"; may be empty.
  std::string ranks;
  /// Kinds of its collectives and how many a step has: "5 all-reduce, 2 broadcast".
  std::string collectives;

  LOCKSTEP_DESCRIBE(kOptional, name, ranks, collectives)
};

/// A gradient in the order in which backward makes them.
struct RecordedGradient {
  int64_t elements = 0;
  /// Mean time from the begin of backward to its end.
  double after_backward_s = 0;

  LOCKSTEP_DESCRIBE(kOptional, elements, after_backward_s)
};

/// The end of a rank's training.
struct RecordedEnd {
  int rank = 0;
  /// "finished", "failed: ValueError", "left with exit code 3", "was killed", "was interrupted", ...
  std::string how;
  int steps = 0;
  /// Seconds after the first end of any rank.
  double after_s = 0;

  LOCKSTEP_DESCRIBE(kOptional, rank, how, steps, after_s)
};

/// How a run was recorded that lockstep did not train itself: by PyTorch's profiler, in a training of the
/// user's.
struct Recorded {
  /// "PyTorch 2.11.0's profiler".
  std::string by;
  /// Ranks with a trace, in order: those of the samples and of the breakdown.
  std::vector<int> ranks;
  /// Whether rates rest on steps outside of the profiler's window, not on those in it.
  bool rates_outside = false;
  /// Steps in the window that the breakdown rests on, and those left out: evaluation (no backward),
  /// incomplete (at either end of the window), and irregular (other collectives than most, or not on all
  /// ranks).
  int steps = 0;
  int evaluation_steps = 0;
  int incomplete_steps = 0;
  int irregular_steps = 0;
  /// Time of a step in the window over one outside; empty: not known.
  std::optional<double> window_cost;
  std::optional<Interval> window_cost_interval;
  /// The place in the series of steps, warm-up included, at which it lacks those of the window, and how many.
  int window_at = 0;
  int window_steps = 0;
  /// Samples of a step per rank, by shapes in the traces; empty: not known, or all alike.
  std::vector<int64_t> batches;
  /// Mean samples of a step of a rank, as a DataLoader yielded them; 0: batch_per_rank * accumulate.
  double samples_per_step = 0;
  /// [place in `ranks`]: threads that compute, and cores that the process may use; 0: not known.
  std::vector<int> threads;
  std::vector<int> cores;
  /// Of a host; 0: not known.
  int host_cores = 0;
  /// "fp32", "bf16 autocast"; empty: not known.
  std::string precision;
  /// Whether DistributedDataParallel has a communication hook.
  bool has_hook = false;
  /// Whether a DataLoader yielded batches; empty: not known.
  std::optional<bool> has_loader;
  /// Updates that a gradient scaler skipped, of all recorded steps of a rank; such a step counts as one.
  int skipped_updates = 0;
  /// Ends of all ranks in the order of time; empty: all finished after as many steps.
  std::vector<RecordedEnd> ends;
  /// [rank][step of the breakdown]: elements of the first layer's input; 0: the trace does not say.
  std::vector<std::vector<int64_t>> input_elements;
  std::vector<RecordedWork> work;
  std::vector<RecordedGroup> groups;
  std::vector<RecordedCollective> collectives;
  std::vector<RecordedGradient> gradients;
  /// What is missing or was assumed, each a sentence.
  std::vector<std::string> notes;

  LOCKSTEP_DESCRIBE(kOptional, by, ranks, rates_outside, steps, evaluation_steps, incomplete_steps,
                    irregular_steps, window_cost, window_cost_interval, window_at, window_steps, batches,
                    samples_per_step, threads, cores, host_cores, precision, has_hook, has_loader,
                    skipped_updates, ends, input_elements, work, groups, collectives, gradients, notes)
};

}  // namespace lockstep::results
