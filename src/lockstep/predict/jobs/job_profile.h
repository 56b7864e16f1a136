#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/predict/jobs/collective_table.h"
#include "lockstep/results/record/run_record.h"

namespace lockstep::predict {

/// What a strategy exchanges in a step, and when.
struct StrategyShape {
  /// Empty: nothing is exchanged.
  std::optional<CollectiveKind> gradients = {};
  /// Of parameters, after the update of each bucket, or all of them before forward.
  std::optional<CollectiveKind> values = {};
  bool fetches_before_forward = false;
  /// Of parameters while the forward pass goes on, and again in the backward pass, in turn with gradients.
  bool gathers_for_passes = false;
  /// Gradients are sent during backward.
  bool overlaps = true;
  /// Each bucket is updated when it arrives, while later ones travel.
  bool updates_on_arrival = false;
  /// Each rank updates its share of the parameters only.
  bool divides_update = false;
  /// Every tensor travels on its own.
  bool per_tensor = false;
  /// Ranks wait for each other in every step.
  bool coupled = true;
  /// Owners answer each rank by itself.
  bool has_servers = false;
  bool one_server = false;
  /// One process copies to and from all devices (data_parallel).
  bool one_process = false;
  /// Whether it has --bucket-mb, and --wire.
  bool has_buckets = true;
  bool has_wire = true;
  /// Steps that ranks take alone before all parameters are averaged at once; 0: they combine every step.
  int steps_alone = 0;
};

/// Shape of a strategy with options as on a command line ("--overlap off"), of which it ignores those of
/// others; zero1, zero2, zero3 and fsdp are names of sharded with --shard. Empty for a name that lockstep
/// lacks, as a recorded training may have.
std::optional<StrategyShape> strategy_shape(const std::string& strategy, const std::string& options);

/// Bytes of a gradient on a strategy's wire relative to fp32, by those of the options `--wire` and
/// `--exchange` that it has.
double wire_share(const std::string& strategy, const std::string& options);

/// An empirical distribution with a generalized Pareto tail above its 95 % quantile, by the tail's mean and
/// variance (Hosking and Wallis 1987); the tail's shape is at most 0.4, and 0 (exponential) with few samples.
class Spread {
 public:
  /// All values are 0.
  Spread() = default;
  /// Without samples likewise.
  explicit Spread(std::vector<double> samples);

  /// The value below which a share `p` lies, 0 < p < 1.
  double quantile(double p) const;
  /// The share of values below `x`.
  double below(double x) const;
  bool is_zero() const { return sorted_.empty(); }
  /// The distribution of values `factor` times as large; the factor is not negative.
  Spread times(double factor) const;

 private:
  std::vector<double> sorted_;
  double threshold_ = 0;
  double scale_ = 0;
  double shape_ = 0;
};

/// What varies in a step's computation, as shares of it with mean 0: a rank's own part, and what all ranks of
/// a host have in common.
struct StepNoise {
  Spread rank;
  Spread host;
};

/// `count` equally probable values of the largest noise of a job's ranks: P(max <= x) = (E over a host's part
/// h of G(x - h)^per_host)^hosts.
std::vector<double> maxima(const StepNoise& noise, const Placement& placement, int count);

/// A collective that follows the ones before it in one queue.
struct QueuedCollective {
  /// When its bytes are ready, in computing time from the begin of the step.
  double ready_s = 0;
  double cost_s = 0;
  /// How late it begins while the rank computes, because its thread waits for a turn of the processor.
  double late_s = 0;
};

/// What computing and communicating at the same time cost each other: a collective takes (1 + network) times
/// as long while the rank computes (phi_n), computing takes (1 + compute) times as long while a collective
/// runs (phi_c).
struct OverlapLoss {
  double compute = 0;
  double network = 0;
};

/// Time in which a collective runs and ranks compute 1/stretch as fast.
struct BusyTime {
  double from_s = 0, until_s = 0, stretch = 1;

  /// When `work_s` of computing that begins at `begin_s` is done.
  double end_of(double begin_s, double work_s) const;
  /// Computing that is done between two times.
  double work_in(double begin_s, double end_s) const;
};

/// The busy time of a collective whose turn comes at `begin_s`, when the rank has `left_s` of computing left.
BusyTime busy_time(const QueuedCollective& collective, double begin_s, double left_s,
                   const OverlapLoss& loss);

struct OverlapEnd {
  /// The rank has computed all.
  double computed_s = 0;
  /// Ends of the collectives.
  std::vector<double> ended_s;

  double communicated_s() const { return ended_s.empty() ? 0 : ended_s.back(); }
};

/// Where `end_s` of computing and the queue end: c_k = max(r_k, f_(k-1)), f_k = c_k + A_k, with the losses
/// above. `ready_s` ascend. Without overlap the queue begins when all is computed.
OverlapEnd overlap(std::span<const QueuedCollective> queue, double end_s, const OverlapLoss& loss);

/// A step of one rank at some number of ranks, without noise; seconds.
struct JobStep {
  /// Values that are fetched before forward, and a server's work for all ranks, below which no step lasts.
  double fetch_s = 0;
  double servers_s = 0;
  /// Input, forward and backward.
  double computing_s = 0;
  double update_s = 0;
  double other_s = 0;
  /// Waiting and other time that no change but its own shortens.
  double fixed_s = 0;
  /// Of gradients.
  std::vector<QueuedCollective> queue = {};
  /// Of values, one per gradient collective, in the same queue behind all of them.
  std::vector<double> gather_s = {};
  OverlapLoss loss = {};
  bool overlaps = true;
  bool updates_on_arrival = false;
};

/// The step of a job whose slowest rank computes (1 + noise) times as long: fetch, what overlap() gives,
/// update and the rest. A bucket's update begins when it has arrived and those before it are updated.
double step_s(const JobStep& step, double noise);

/// Gradients that are sent together.
struct GradientBucket {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  double bytes = 0;
  /// Computing time from the begin of a step until they are final.
  double ready_s = 0;
  /// Bytes at its end that are of one tensor, which is final as a whole; 0: not known.
  double tail_bytes = 0;
};

/// Where a strategy cuts gradients: c10d's Reducer (ddp) has a smaller cap for its first bucket, and closes
/// each with the tensor that reaches the cap; others cut at the cap.
struct BucketCaps {
  double bytes = 0;
  double first_bytes = bytes;
  bool whole_tensors = false;
};

/// Caps of a strategy in bytes on the wire: `bucket_mb` counts fp32, of which `wire` is sent.
BucketCaps bucket_caps(const std::string& strategy, double bucket_mb, double wire);

/// Finds what of buckets that were cut by `caps` is of the tensor that closed them: all beyond the cap, and
/// the largest tensor if it is larger than the cap.
void find_tails(std::vector<GradientBucket>& buckets, const BucketCaps& caps, double largest_bytes);

/// Cuts gradients into buckets by `caps`, each ready when the bytes of `buckets` until its end are: those of
/// a bucket become ready evenly since the one before (the first: since `begin_s`), its tail at its end.
std::vector<GradientBucket> cut_again(const std::vector<GradientBucket>& buckets, double begin_s,
                                      const BucketCaps& caps);

/// A value of something that depends on a number: time on the batch, slowdown on the ranks that share a host.
struct KnownValue {
  double at = 0;
  double value = 0;
};

/// The value at `x`: linear between known ones (ascending in `at`, at least one) and beyond two or more of
/// them, with the slope of the outermost, at least 0.
double value_at(const std::vector<KnownValue>& known, double x);

/// The time of a batch by those of known ones: as value_at(), from a single one with a tenth of it fixed; at
/// least a tenth of the smallest one's.
double time_of_batch(const std::vector<KnownValue>& known, double batch);

/// A measured step beside its number of ranks.
struct MeasuredStep {
  Placement placement;
  double step_s = 0;
  /// Mean waiting of a rank for the others, part of the step.
  double waiting_s = 0;
};

/// A step of a training under one strategy, per rank: means over the row of `measured.back()`. Seconds.
struct JobProfile {
  std::string model, strategy, options, backend, unit;
  /// All settings of the measured row.
  results::Setup setup;
  StrategyShape shape;
  int batch = 0;
  /// Images that a rank computes in a step.
  double images = 0;
  double bucket_mb = 25;
  /// Bytes of a gradient on the wire relative to fp32.
  double wire = 1;
  double parameter_bytes = 0, largest_bytes = 0;
  int tensors = 1;
  /// The measured one, and the rank that the others wait for.
  Placement placement;
  std::optional<int> straggler;
  /// Input and forward, backward, optimizer, the rest; no communication.
  double forward_s = 0, backward_s = 0, update_s = 0, other_s = 0;
  std::vector<GradientBucket> buckets;
  OverlapLoss loss;
  /// Processor time of a rank's communication over its time, at most 1 (core_share_of).
  double core_share = 1;
  /// How late each round of a collective begins while ranks compute on all cores.
  double turn_s = 0;
  StepNoise noise;
  /// Speed-up of the measured row; empty: not known, or it cannot be true.
  std::optional<double> speedup;
  /// Step of one rank without a strategy, alone on its host; that of perfect scaling, which differs where
  /// such a rank had the whole batch of a job under strong scaling.
  double alone_s = 0, ideal_s = 0;
  /// Step of such a rank by its batch, `batch` among them.
  std::vector<KnownValue> alone_by_batch;
  /// Computing by the number of ranks that share a host, relative to one alone.
  std::vector<KnownValue> sharing;
  /// Cores of a host over threads of a rank; 0: not known, or ranks compute on GPUs.
  double ranks_with_cores = 0;
  /// The strategy's steps by ranks, ascending.
  std::vector<MeasuredStep> measured;
  /// Costs of the strategy's own collectives: while ranks compute, or without `loss.network` and `turn_s`
  /// where those tell what computing adds.
  std::vector<CollectivePoint> points;
  /// What had to be assumed, each a sentence.
  std::vector<std::string> notes;

  double computing_s() const { return forward_s + backward_s; }
  /// Whether the ranks of a host compute on all its cores, so that what else needs a core delays them.
  bool fills_cores(const Placement& at) const {
    return ranks_with_cores > 0 && std::min(at.per_host, at.ranks) >= ranks_with_cores;
  }
};

/// Choice among the rows of a record; empty: any.
struct ProfileChoice {
  std::string model;
  std::string strategy;
  int batch = 0;
};

/// Whether the record says on how many hosts a row ran.
inline bool knows_hosts(const results::Run& run) {
  return run.hosts > 0;
}

/// Whether a prediction can start from a row: it ended, and has a breakdown of every rank.
inline bool is_usable(const results::Run& run) {
  return run.finished() && !run.pooled && run.breakdown && !run.breakdown->ranks.empty();
}

/// Profiles of the strategies in a record that were measured with a breakdown, in order; of several settings
/// under one strategy the ones with the most ranks, of these the fastest, and with one row for each number of
/// ranks, the fastest. Under strong scaling those with the batch of the most ranks. A record whose only
/// breakdowns are of `single` gives a profile of ddp with buckets as planned. Throws ConfigError, `name`
/// being the file, for a record without a breakdown, with several networks or (weak scaling) batches where
/// the choice names none, with times that are no numbers, and with rows of unknown hosts.
std::vector<JobProfile> read_profiles(const results::RunRecord& record, const std::string& name,
                                      const ProfileChoice& choice);

/// Buckets of a breakdown as means over the ranks.
std::vector<results::BucketTimes> mean_buckets(const results::Run& run);

/// The kind of collective `index` of `count` in the breakdown of a run.
CollectiveKind bucket_kind(const results::Run& run, const StrategyShape& shape, size_t index, size_t count);

/// Processor time of a rank's communication over its time, at most 1: little where a link is slower than the
/// cores that move the bytes. 1 where it is not known.
double core_share_of(const results::Run& run);

/// Costs of a run's own collectives.
struct OwnCosts {
  /// By kind and size: the time by which each, in one queue, was later than its ready time and the end of
  /// those before (the recurrence of overlap() solved for the costs); those that ran at the same time, in
  /// lanes, share it by their bytes. Equal sizes share their mean.
  std::vector<CollectivePoint> points;
  /// phi_n, and how late a round begins while the rank computes, where `points` leave them out.
  double network_loss = 0, turn_s = 0;
  /// Time of a step in which ranks compute and collectives that are late have not begun.
  double late_s = 0;
};

/// Where no size is small enough to tell latency, costs are put onto a line through the assumed latency that
/// keeps their sum: one that ranks delayed because they computed would make smaller ones look dear. Where the
/// ranks fill the cores (`fills_cores`), which move the bytes as well, the times are those of the most
/// probable link, phi_n and turn of the processor (docs/predicting.md).
OwnCosts own_costs(const results::Run& run, const StrategyShape& shape, bool fills_cores);

}  // namespace lockstep::predict
