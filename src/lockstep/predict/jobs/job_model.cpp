#include "lockstep/predict/jobs/job_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/measure/series.h"

namespace lockstep::predict {
namespace {

/// Equally probable maxima over which a step is averaged.
constexpr int kMaxima = 32;
constexpr int kDraws = 200;
/// Least computing of any batch, relative to the measured one.
constexpr double kLeastComputing = 0.02;
/// Uncertainty as standard deviations of logarithms: of computing; of the cost of collectives where they were
/// measured, more for each doubling beyond, and of a network that nobody measured; of noise; of how ranks
/// share a host beyond the measured number; least of the model as a whole.
constexpr double kComputing = 0.01, kMeasuredCost = 0.05, kCostPerDoubling = 0.08, kUnmeasuredNetwork = 0.15,
                 kAssumedLatency = 0.7, kNoise = 0.25, kSharing = 0.4, kLeastMisfit = 0.015;
/// Noise may make the modeled step longer than the measured one by this share.
constexpr double kNoiseExcess = 0.05;
/// Share of a step from which waiting and time that nothing explains are worth a note.
constexpr double kNotedShare = 0.05;

/// Communication that takes less of a core leaves the rest to updates.
constexpr double kBusyCore = 0.5;

/// Bytes of fp32 that one thread makes 16 bits of, and fp32 of those, in a second: between the 1.7e9
/// and 4.7e9 of LibTorch's conversion for 150 and 25 MB.
constexpr double kConverted_bytes_per_s = 2.5e9;

/// Bytes of fp32 gradients that one thread factors and multiplies out again in a second (PowerSGD of rank 4).
constexpr double kFactored_bytes_per_s = 0.43e9;

/// Bytes of the factors of a network's gradients (PowerSGD), as if every second tensor were a bias or its
/// like and all matrices but the largest were squares of one size.
double low_rank_bytes(const JobProfile& profile, int rank) {
  const auto of_square = [&](double bytes) { return 4 * rank * 2 * std::sqrt(bytes / 4); };
  const double others = std::max(0.0, profile.tensors / 2.0 - 1);
  const double rest = std::max(0.0, profile.parameter_bytes - profile.largest_bytes);
  return of_square(profile.largest_bytes) + (others > 0 ? others * of_square(rest / others) : 0);
}

double largest_bytes_of(const JobProfile& profile) {
  return profile.buckets.empty() ? 0 : std::ranges::max(profile.buckets, {}, &GradientBucket::bytes).bytes;
}

/// One rank within a step.
struct SimulatedRank {
  double begin_s = 0;
  double pace = 1;
  /// Computing done at the simulation's time, and all of it.
  double done_s = 0;
  double end_s = 0;
  double updated_s = 0;
};

class JobSimulation {
 public:
  JobSimulation(const StepNoise& noise, const Placement& placement, const SimulationOptions& options)
      : noise_(noise),
        per_host_(std::min(placement.per_host, placement.ranks)),
        slow_rank_(options.slow_rank),
        generator_(options.seed),
        ranks_(static_cast<size_t>(placement.ranks)) {}

  void lose_host() {
    const size_t last = ranks_.size() % static_cast<size_t>(per_host_);
    ranks_.resize(ranks_.size() - (last == 0 ? static_cast<size_t>(per_host_) : last));
    slow_rank_ = 1;
  }

  /// Returns the end of the step's last rank.
  double step(const JobStep& step) {
    draw();
    double now_s = 0;
    for (const SimulatedRank& rank : ranks_) now_s = std::max(now_s, rank.begin_s);
    if (step.fetch_s != 0) {
      for (SimulatedRank& rank : ranks_) rank.begin_s = now_s + step.fetch_s;
    }
    for (SimulatedRank& rank : ranks_) {
      rank.done_s = 0;
      rank.end_s = step.computing_s * rank.pace;
    }
    return finish(step, send(step));
  }

  /// Each rank by itself; servers answer one request after the other.
  double uncoupled_step(const JobStep& step) {
    draw();
    std::ranges::sort(ranks_, {}, &SimulatedRank::begin_s);
    const double service_s = step.servers_s / static_cast<double>(ranks_.size());
    double last_s = 0;
    for (SimulatedRank& rank : ranks_) {
      servers_free_s_ = std::max(servers_free_s_, rank.begin_s) + service_s;
      rank.begin_s = std::max(servers_free_s_, rank.begin_s + step.fetch_s) +
                     (step.computing_s + step.update_s + step.other_s) * rank.pace + step.fixed_s;
      last_s = std::max(last_s, rank.begin_s);
    }
    return last_s;
  }

  size_t ranks() const { return ranks_.size(); }
  double waiting() const { return ended_s_ > 0 ? std::max(0.0, 1 - punctual_s_ / ended_s_) : 0; }

 private:
  void draw() {
    std::uniform_real_distribution<double> share(1e-9, 1 - 1e-9);
    double host = 0;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (r % static_cast<size_t>(per_host_) == 0) host = noise_.host.quantile(share(generator_));
      ranks_[r].pace = std::max(0.1, 1 + host + noise_.rank.quantile(share(generator_)));
    }
    ranks_.back().pace *= slow_rank_;
  }

  /// Returns when each collective of gradients ends, and sets when each rank has computed all.
  std::vector<double> send(const JobStep& step) {
    std::vector<double> ends;
    // All ranks are known at `now_s`: when the turn of the last collective came.
    double now_s = 0;
    BusyTime busy{.stretch = 1 + step.loss.compute};
    const auto time_of = [&](const SimulatedRank& rank, double goal_s) {
      return busy.end_of(std::max(now_s, rank.begin_s), std::max(0.0, goal_s - rank.done_s));
    };
    for (const QueuedCollective& collective : step.queue) {
      double begin_s = busy.until_s;
      for (const SimulatedRank& rank : ranks_)
        begin_s =
            std::max(begin_s, time_of(rank, step.overlaps ? collective.ready_s * rank.pace : rank.end_s));
      double left_s = 0;
      for (SimulatedRank& rank : ranks_) {
        rank.done_s =
            std::min(rank.end_s, rank.done_s + busy.work_in(std::max(now_s, rank.begin_s), begin_s));
        left_s = std::max(left_s, rank.end_s - rank.done_s);
      }
      now_s = begin_s;
      busy = busy_time(collective, begin_s, left_s, step.loss);
      ends.push_back(busy.until_s);
    }
    for (SimulatedRank& rank : ranks_) rank.end_s = time_of(rank, rank.end_s);
    return ends;
  }

  double finish(const JobStep& step, const std::vector<double>& ends) {
    for (SimulatedRank& rank : ranks_) rank.updated_s = rank.end_s;
    double gathered_s = ends.empty() ? 0 : ends.back();
    const bool on_arrival = step.updates_on_arrival && !ends.empty();
    const size_t updates = on_arrival ? ends.size() : 1;
    for (size_t k = 0; k < updates; ++k) {
      double all_s = 0;
      for (SimulatedRank& rank : ranks_) {
        const double arrived_s = on_arrival ? ends[k] : gathered_s;
        rank.updated_s =
            std::max(rank.updated_s, arrived_s) + step.update_s * rank.pace / static_cast<double>(updates);
        all_s = std::max(all_s, rank.updated_s);
      }
      if (k < step.gather_s.size()) gathered_s = std::max(gathered_s, all_s) + step.gather_s[k];
    }
    double last_s = 0;
    for (SimulatedRank& rank : ranks_) {
      rank.begin_s = std::max(rank.updated_s, step.gather_s.empty() ? 0 : gathered_s) +
                     step.other_s * rank.pace + step.fixed_s;
      last_s = std::max(last_s, rank.begin_s);
    }
    for (const SimulatedRank& rank : ranks_)
      punctual_s_ += step_s(step, rank.pace - 1) / static_cast<double>(ranks_.size());
    ended_s_ = last_s;
    return last_s;
  }

  const StepNoise& noise_;
  int per_host_;
  double slow_rank_;
  std::mt19937_64 generator_;
  std::vector<SimulatedRank> ranks_;
  double servers_free_s_ = 0;
  /// The end of the last step, and what it would be if all ranks were as fast as the mean one.
  double ended_s_ = 0, punctual_s_ = 0;
};

}  // namespace

double BusyTime::end_of(double begin_s, double work_s) const {
  const double before_s = std::clamp(from_s - begin_s, 0.0, work_s), left_s = work_s - before_s;
  const double at_s = begin_s + before_s, busy_s = std::max(0.0, until_s - std::max(at_s, from_s));
  return at_s + (left_s * stretch <= busy_s ? left_s * stretch : busy_s + left_s - busy_s / stretch);
}

double BusyTime::work_in(double begin_s, double end_s) const {
  const double span_s = std::max(0.0, end_s - begin_s);
  const double busy_s = std::clamp(std::min(end_s, until_s) - std::max(begin_s, from_s), 0.0, span_s);
  return span_s - busy_s + busy_s / stretch;
}

BusyTime busy_time(const QueuedCollective& collective, double begin_s, double left_s,
                   const OverlapLoss& loss) {
  const double late_s = std::min(collective.late_s, left_s), cost_s = collective.cost_s;
  BusyTime busy{.from_s = begin_s + late_s, .stretch = 1 + loss.compute};
  const double computing_s = (left_s - late_s) * busy.stretch, slow_s = cost_s * (1 + loss.network);
  busy.until_s = busy.from_s +
                 (slow_s <= computing_s ? slow_s : computing_s + cost_s - computing_s / (1 + loss.network));
  return busy;
}

OverlapEnd overlap(std::span<const QueuedCollective> queue, double end_s, const OverlapLoss& loss) {
  // At `now_s`, when the last collective's turn came, `left_s` of computing is left.
  double now_s = 0, left_s = end_s;
  BusyTime busy{.stretch = 1 + loss.compute};
  OverlapEnd end;
  end.ended_s.reserve(queue.size());
  for (const QueuedCollective& collective : queue) {
    const double until_ready_s = std::max(0.0, std::min(collective.ready_s, end_s) - (end_s - left_s));
    const double ready_s = busy.end_of(now_s, until_ready_s) + std::max(0.0, collective.ready_s - end_s);
    const double begin_s = std::max(ready_s, busy.until_s);
    if (left_s > 0) end.computed_s = busy.end_of(now_s, left_s);
    left_s = std::max(0.0, left_s - busy.work_in(now_s, begin_s));
    now_s = begin_s;
    busy = busy_time(collective, begin_s, left_s, loss);
    end.ended_s.push_back(busy.until_s);
  }
  if (left_s > 0) end.computed_s = busy.end_of(now_s, left_s);
  return end;
}

double step_s(const JobStep& step, double noise) {
  const double pace = 1 + noise, computing_s = step.computing_s * pace;
  std::vector<QueuedCollective> queue = step.queue;
  for (QueuedCollective& collective : queue)
    collective.ready_s = step.overlaps ? collective.ready_s * pace : computing_s;
  const OverlapEnd end = overlap(queue, computing_s, step.loss);
  double updated_s = end.computed_s, gathered_s = end.communicated_s();
  const double update_s = step.update_s * pace;
  if (step.updates_on_arrival && !queue.empty()) {
    const double each_s = update_s / static_cast<double>(queue.size());
    for (size_t k = 0; k < queue.size(); ++k) {
      updated_s = std::max(updated_s, end.ended_s[k]) + each_s;
      if (k < step.gather_s.size()) gathered_s = std::max(gathered_s, updated_s) + step.gather_s[k];
    }
  } else {
    updated_s = std::max(updated_s, gathered_s) + update_s;
    gathered_s = std::accumulate(step.gather_s.begin(), step.gather_s.end(), updated_s);
  }
  const double own_s = step.fetch_s + std::max(updated_s, gathered_s) + step.other_s * pace + step.fixed_s;
  return std::max(own_s, step.servers_s);
}

JobModel::JobModel(JobProfile profile, CollectiveTable table)
    : profile_(std::move(profile)), table_(std::move(table)), notes_(profile_.notes) {
  const bool communicates = profile_.shape.gradients.has_value();
  if (communicates && table_.empty()) {
    throw ConfigError(
        fmt::format("the record has {} at one rank only, so the cost of collectives is not known",
                    profile_.strategy),
        "Measure two ranks or more with --breakdown, or give a network (--network 25gbit,20us) or a table "
        "(--collectives FILE).");
  }
  if (communicates && table_.latency_is_assumed())
    notes_.push_back(fmt::format(
        "Large buckets do not tell latency from bandwidth: {:.0f} us per round are assumed. Small buckets "
        "(bench --bucket-mb) or a table (--collectives) measure it.",
        1e6 * kAssumedRound_s));
  take_rest();
}

void JobModel::take_rest() {
  const auto model_of = [this](const MeasuredStep& measured) {
    const Scenario scenario{.placement = measured.placement};
    return steps(scenario, Draw{}, noise_of(scenario, profile_.shape));
  };
  const MeasuredStep& last = profile_.measured.back();
  const double goal_s = std::max((1 + kNoiseExcess) * last.step_s, model_of(last).transfer_s);
  const StepNoise noise = profile_.noise;
  for (double share = 1, step = 0.5; step > 1e-3; step /= 2) {
    const bool too_long = model_of(last).stragglers_s > goal_s;
    if (!too_long && share == 1) break;
    share += too_long ? -step : step;
    profile_.noise = {noise.rank.times(share), noise.host.times(share)};
  }
  Rest found;
  if (profile_.measured.front().placement.ranks > 1) {
    const Steps one = steps({.placement = {1, 1}}, Draw{}, {0});
    found = {.log_scale = {{0, std::max(0.0, std::log(one.batch_s / one.strategy_s))}},
             .waiting_s = {{0, 0}},
             .unexplained_s = {{0, 0}}};
  }
  std::vector<double> misfits;
  for (const MeasuredStep& measured : profile_.measured) {
    const Steps model = model_of(measured);
    const double at = std::log2(measured.placement.ranks), rest_s = measured.step_s - model.stragglers_s;
    const double unmodeled_s = measured.waiting_s - (model.stragglers_s - model.transfer_s);
    const double waiting_s = std::clamp(unmodeled_s, 0.0, std::max(0.0, rest_s));
    found.log_scale.push_back({at, std::min(0.0, std::log(measured.step_s / model.stragglers_s))});
    found.waiting_s.push_back({at, waiting_s});
    found.unexplained_s.push_back({at, std::max(0.0, rest_s - waiting_s)});
    misfits.push_back(std::log(measured.step_s / (model.stragglers_s + waiting_s)));
  }
  rest_ = std::move(found);
  double squares = 0;
  for (const double misfit : misfits) squares += std::pow(misfit - misfits.back(), 2);
  if (misfits.size() > 1) misfit_ = std::sqrt(squares / static_cast<double>(misfits.size() - 1));
  misfit_ = std::max(misfit_, kLeastMisfit);
  const auto note = [&](const std::vector<KnownValue>& seconds, const std::string& what) {
    if (seconds.back().value > kNotedShare * last.step_s)
      notes_.push_back(
          fmt::format("{:.3g} of {:.3g} ms of a measured step are {}, at other numbers of ranks too.",
                      1e3 * seconds.back().value, 1e3 * last.step_s, what));
  };
  note(rest_.waiting_s, profile_.straggler ? fmt::format("waiting for rank {}", *profile_.straggler)
                                           : "waiting for other ranks");
  note(rest_.unexplained_s, "not explained by computing, communication and noise");
}

StrategyShape JobModel::shape_of_job(const Scenario& scenario) const {
  std::optional<StrategyShape> shape = profile_.shape;
  if (!scenario.strategy.empty()) shape = strategy_shape(scenario.strategy, profile_.options);
  if (shape && shape->steps_alone > 0 && scenario.sync_every > 0) shape->steps_alone = scenario.sync_every;
  if (shape && scenario.powersgd > 0) shape->overlaps = shape->updates_on_arrival = false;
  if (scenario.strategy.empty()) return *shape;
  if (!shape || scenario.strategy == results::kIndependent || scenario.strategy == results::kSingle)
    throw ConfigError(fmt::format("strategy '{}' has no model to predict it", scenario.strategy),
                      "'lockstep info strategies' lists those that train together.");
  return *shape;
}

double JobModel::batch_of(const Scenario& scenario) const {
  if (scenario.global_batch > 0) {
    const double batches = 1.0 * scenario.placement.ranks * profile_.setup.accumulate;
    if (scenario.global_batch < batches)
      throw ConfigError(fmt::format("--global-batch {} has no image for each of {} {}", scenario.global_batch,
                                    batches, profile_.setup.accumulate > 1 ? "batches" : "ranks"),
                        "Use fewer --ranks, or a larger --global-batch.");
    return scenario.global_batch / batches;
  }
  return scenario.batch > 0 ? scenario.batch : profile_.batch;
}

double JobModel::relative_time(double batch) const {
  if (batch == profile_.batch) return 1;
  return time_of_batch(profile_.alone_by_batch, batch) / profile_.alone_s;
}

double JobModel::wire_of(const Scenario& scenario) const {
  const bool other = !scenario.strategy.empty();
  return scenario.wire * (other ? wire_share(scenario.strategy, profile_.options) : profile_.wire);
}

double JobModel::slowdown(const Placement& placement, double draw) const {
  const auto sharing = [&](double ranks) {
    const double measured = value_at(profile_.sharing, ranks);
    const double most = profile_.sharing.back().at;
    const double beyond =
        ranks > most ? measured + (draw - 1) * (measured - value_at(profile_.sharing, most)) : measured;
    const double cores = profile_.ranks_with_cores;
    return cores > 0 && ranks > cores ? std::max(beyond, ranks / cores) : beyond;
  };
  return std::max(1e-3, sharing(std::min(placement.per_host, placement.ranks)));
}

std::vector<GradientBucket> JobModel::buckets_of(const Scenario& scenario, const StrategyShape& shape) const {
  // All parameters at once, a part of them for each step of the period.
  if (shape.steps_alone > 0) return {{.bytes = profile_.parameter_bytes, .ready_s = profile_.computing_s()}};
  if (scenario.powersgd > 0) {
    const double half = low_rank_bytes(profile_, scenario.powersgd) / 2;
    return {{.bytes = half, .ready_s = profile_.computing_s()},
            {.bytes = half, .ready_s = profile_.computing_s()}};
  }
  std::vector<GradientBucket> buckets = profile_.buckets;
  const std::string& strategy = scenario.strategy.empty() ? profile_.strategy : scenario.strategy;
  const double cap_mb = scenario.bucket_mb > 0 ? scenario.bucket_mb : profile_.bucket_mb;
  if ((strategy != profile_.strategy || cap_mb != profile_.bucket_mb) && !buckets.empty()) {
    double bytes = 0;
    for (const GradientBucket& bucket : buckets) bytes += bucket.bytes;
    // Gradients that were sent after backward do not tell when they were final.
    if (!profile_.shape.overlaps) buckets = {{.bytes = bytes, .ready_s = profile_.computing_s()}};
    if (shape.per_tensor) {
      const double largest = std::min(bytes, profile_.largest_bytes);
      const int others = profile_.tensors - 1;
      buckets = {{.bytes = others > 0 ? largest : bytes}};
      for (int i = 0; i < others; ++i) buckets.push_back({.bytes = (bytes - largest) / others});
    } else {
      buckets = cut_again(buckets, profile_.forward_s, bucket_caps(strategy, cap_mb, profile_.wire));
    }
    for (GradientBucket& bucket : buckets) bucket.kind = shape.gradients.value_or(bucket.kind);
  }
  for (GradientBucket& bucket : buckets) bucket.bytes *= wire_of(scenario) / profile_.wire;
  return buckets;
}

double JobModel::rest(const std::vector<KnownValue>& of, int ranks) const {
  if (of.empty()) return 0;
  return value_at(of, std::clamp(std::log2(ranks), of.front().at, of.back().at));
}

double JobModel::converting_s(const Scenario& scenario) const {
  if (profile_.setup.device != "cpu" || scenario.placement.ranks == 1) return 0;
  if (scenario.powersgd > 0) return profile_.parameter_bytes / kFactored_bytes_per_s;
  const int more = (wire_of(scenario) < 1 ? 1 : 0) - (profile_.wire < 1 ? 1 : 0);
  return more * profile_.parameter_bytes / kConverted_bytes_per_s;
}

double JobModel::update_s(const Scenario& scenario) const {
  const auto share = [](const StrategyShape& shape, const Placement& placement) {
    return shape.divides_update ? 1.0 / placement.ranks : 1;
  };
  return profile_.update_s * share(shape_of_job(scenario), scenario.placement) /
         share(profile_.shape, profile_.placement);
}

JobStep JobModel::computing_step(const Scenario& scenario, const Draw& draw) const {
  const double pace = slowdown(scenario.placement, draw.sharing) / slowdown(profile_.placement, 1) *
                      draw.computing / scenario.compute * draw.all;
  const double fixed_s = profile_.update_s + profile_.other_s, computing_s = profile_.computing_s();
  // The batch decides how long a whole step takes; update and the rest do not depend on it.
  const double of_batch_s = relative_time(batch_of(scenario)) * (computing_s + fixed_s) - fixed_s;
  return {.computing_s = std::max(of_batch_s + converting_s(scenario), kLeastComputing * computing_s) * pace,
          .update_s = update_s(scenario) * pace,
          .other_s = profile_.other_s * pace};
}

void JobModel::add_communication(JobStep& step, const Scenario& scenario, const Draw& draw) const {
  const StrategyShape shape = shape_of_job(scenario);
  step.overlaps = shape.overlaps;
  step.loss = profile_.loss;
  // A core that is free moves the bytes.
  const bool shares_cores = profile_.fills_cores(scenario.placement);
  step.updates_on_arrival = shape.updates_on_arrival && (!shares_cores || profile_.core_share < kBusyCore);
  if (profile_.fills_cores(profile_.placement) && !shares_cores) step.loss = {};
  const int ranks = scenario.placement.ranks;
  if (ranks == 1) return;
  const auto drawn_s = [&](const CollectiveTime& time) {
    return draw.all * (time.latency_s * draw.latency + time.transfer_s * draw.transfer);
  };
  const LinkChange change{.bandwidth = scenario.bandwidth, .latency = scenario.latency};
  const auto cost_s = [&](CollectiveKind kind, double bytes) {
    return drawn_s(table_.time(kind, scenario.placement, bytes, change));
  };
  const double wire = wire_of(scenario);
  if (shape.has_servers) {
    const Link link = present_link(scenario).after(change);
    const int servers = shape.one_server ? 1 : ranks;
    step.servers_s = drawn_s(
        server_time(link, ranks, servers, profile_.parameter_bytes * wire, profile_.largest_bytes * wire));
    step.fetch_s = drawn_s({link.latency_s, profile_.parameter_bytes / link.bytes_per_s});
    return;
  }
  if (shape.one_process) {
    // Every further device adds as much as among the measured numbers.
    const MeasuredStep &first = profile_.measured.front(), &last = profile_.measured.back();
    const int devices = last.placement.ranks - first.placement.ranks;
    if (devices > 0) step.fetch_s = (last.step_s - first.step_s) / devices * (ranks - last.placement.ranks);
    return;
  }
  const double measured_s = profile_.computing_s();
  double gathers_s = 0, last_gather_s = 0;
  for (const GradientBucket& bucket : buckets_of(scenario, shape)) {
    const Algorithm algorithm = library_algorithm(table_.backend(), bucket.kind, ranks, bucket.bytes);
    const double rounds = shares_cores ? shape_of(bucket.kind, algorithm, ranks).rounds : 0;
    step.queue.push_back({.ready_s = measured_s > 0 ? bucket.ready_s / measured_s * step.computing_s : 0,
                          .cost_s = cost_s(bucket.kind, bucket.bytes) / std::max(1, shape.steps_alone),
                          .late_s = rounds * profile_.turn_s * draw.latency * scenario.latency});
    if (!shape.values) continue;
    // Values travel in fp32.
    const double values_s = cost_s(*shape.values, bucket.bytes / wire);
    if (shape.fetches_before_forward) {
      step.fetch_s += values_s;
    } else if (shape.gathers_for_passes) {
      // What is computed with last is still there when the backward pass begins with it.
      if (step.queue.size() > 1) step.queue.back().cost_s += values_s;
      gathers_s += values_s;
      last_gather_s = values_s;
    } else {
      step.gather_s.push_back(values_s);
    }
  }
  // The forward pass begins with the unit that is ready last, and hides the gathers of the others.
  if (shape.gathers_for_passes && measured_s > 0) {
    const double forward_s = step.computing_s * profile_.forward_s / measured_s;
    step.fetch_s += std::max(last_gather_s, gathers_s - forward_s / (1 + step.loss.compute));
  }
  if (!step.updates_on_arrival && !step.gather_s.empty())
    step.gather_s = {std::accumulate(step.gather_s.begin(), step.gather_s.end(), 0.0)};
}

Link JobModel::present_link(const Scenario& scenario) const {
  return table_.effective_link(shape_of_job(scenario).gradients.value_or(CollectiveKind::kAllReduce),
                               scenario.placement, largest_bytes_of(profile_));
}

JobStep JobModel::step(const Scenario& scenario) const {
  const int ranks = scenario.placement.ranks;
  const Draw draw{.all = std::exp(rest(rest_.log_scale, ranks))};
  JobStep step = computing_step(scenario, draw);
  add_communication(step, scenario, draw);
  step.fixed_s = rest(rest_.unexplained_s, ranks) + (scenario.stragglers ? rest(rest_.waiting_s, ranks) : 0);
  return step;
}

std::vector<double> JobModel::noise_of(const Scenario& scenario, const StrategyShape& shape) const {
  if (!scenario.stragglers || !shape.coupled || scenario.placement.ranks == 1) return {0};
  // The mean of a period's steps varies less.
  const double share = 1 / std::sqrt(std::max(1, shape.steps_alone));
  return maxima({profile_.noise.rank.times(share), profile_.noise.host.times(share)}, scenario.placement,
                kMaxima);
}

JobModel::Steps JobModel::steps(const Scenario& scenario, const Draw& draw,
                                const std::vector<double>& noise) const {
  const double batch = batch_of(scenario);
  JobStep step = computing_step(scenario, draw);
  Steps steps{};
  steps.ideal_s = profile_.ideal_s / scenario.compute * batch / profile_.batch;
  steps.batch_s = profile_.alone_s / scenario.compute * relative_time(batch);
  steps.machine_s = steps.batch_s * slowdown(scenario.placement, draw.sharing);
  steps.strategy_s = step_s(step, 0);
  add_communication(step, scenario, draw);
  steps.transfer_s = step_s(step, 0);
  for (const double most : noise)
    steps.stragglers_s += step_s(step, std::max(-0.9, most * draw.noise)) / static_cast<double>(noise.size());
  const int ranks = scenario.placement.ranks;
  if (scenario.stragglers) steps.stragglers_s += draw.noise * rest(rest_.waiting_s, ranks);
  steps.all_s = steps.stragglers_s * std::exp(rest(rest_.log_scale, ranks)) +
                draw.all * draw.noise * rest(rest_.unexplained_s, ranks);
  return steps;
}

double JobModel::efficiency(const Scenario& scenario) const {
  const Steps point = steps(scenario, Draw{}, noise_of(scenario, shape_of_job(scenario)));
  return point.ideal_s / point.all_s;
}

double JobModel::images_per_s(const Scenario& scenario) const {
  const Steps point = steps(scenario, Draw{}, noise_of(scenario, shape_of_job(scenario)));
  return scenario.placement.ranks * profile_.images * batch_of(scenario) / profile_.batch / point.all_s;
}

JobPrediction JobModel::predict(const Scenario& scenario) const {
  const StrategyShape shape = shape_of_job(scenario);
  const std::vector<double> noise = noise_of(scenario, shape);
  const Steps point = steps(scenario, Draw{}, noise);
  const Placement& placement = scenario.placement;
  JobPrediction prediction{.placement = placement,
                           .batch = batch_of(scenario),
                           .step_s = point.all_s,
                           .efficiency = point.ideal_s / point.all_s,
                           .factors = {.batch = point.ideal_s / point.batch_s,
                                       .machine = point.batch_s / point.machine_s,
                                       .strategy = point.machine_s / point.strategy_s,
                                       .transfer = point.strategy_s / point.transfer_s,
                                       .stragglers = point.transfer_s / point.stragglers_s,
                                       .unexplained = point.stragglers_s / point.all_s}};
  // A rank that computes less than the one alone does so for a reason that its strategy has, or for none
  // known.
  if (!shape.divides_update && prediction.factors.strategy > 1)
    prediction.factors.unexplained *= std::exchange(prediction.factors.strategy, 1);
  prediction.images_per_s =
      placement.ranks * profile_.images * prediction.batch / profile_.batch / point.all_s;

  std::mt19937_64 generator(1);
  std::normal_distribution<double> normal;
  const auto drawn = [&](double deviation) { return std::exp(deviation * normal(generator)); };
  const double known = std::max(1, std::max(table_.most_ranks(), profile_.placement.ranks));
  const double doublings = std::max(0.0, std::log2(placement.ranks / known));
  const bool new_network = table_.network() && placement.hosts() > 1;
  const double cost = (new_network ? kUnmeasuredNetwork : kMeasuredCost) + kCostPerDoubling * doublings;
  std::vector<double> efficiencies;
  for (int i = 0; i < kDraws; ++i) {
    const Draw draw{.computing = drawn(kComputing),
                    .sharing = drawn(kSharing),
                    .transfer = drawn(cost),
                    .latency = drawn(table_.latency_is_assumed() ? kAssumedLatency : 2 * cost),
                    .noise = drawn(kNoise),
                    .all = drawn(misfit_)};
    const Steps steps_of_draw = steps(scenario, draw, noise);
    efficiencies.push_back(steps_of_draw.ideal_s / steps_of_draw.all_s);
    prediction.drawn_s.push_back(steps_of_draw.all_s);
  }
  prediction.low = std::min(prediction.efficiency, measure::percentile(efficiencies, 5));
  // Nothing drawn makes a rank faster than it is alone.
  prediction.high = std::max(prediction.efficiency, std::min(1.0, measure::percentile(efficiencies, 95)));

  const Placement& most = profile_.measured.back().placement;
  if (placement.ranks > known) prediction.extrapolated.emplace_back("ranks");
  if (placement.hosts() > most.hosts() && !table_.network()) prediction.extrapolated.emplace_back("hosts");
  const auto& batches = profile_.alone_by_batch;
  if (prediction.batch < batches.front().at || prediction.batch > batches.back().at)
    prediction.extrapolated.emplace_back("batch");
  if (placement.ranks > 1 && shape.gradients && !shape.has_servers) {
    prediction.algorithm = to_string(
        library_algorithm(table_.backend(), *shape.gradients, placement.ranks, largest_bytes_of(profile_)));
  }
  for (const auto& [at, measured_s, waiting_s] : profile_.measured) {
    if (at.ranks == placement.ranks && at.hosts() == placement.hosts() && prediction.batch == profile_.batch)
      prediction.measured_s = measured_s;
  }
  return prediction;
}

std::optional<double> JobModel::bandwidth_for(Scenario scenario, double efficiency_goal) const {
  const auto reached = [&](double bandwidth) {
    scenario.bandwidth = bandwidth;
    return efficiency(scenario) >= efficiency_goal;
  };
  double low = 1e-6, high = 1e6;
  if (!reached(high)) return std::nullopt;
  if (reached(low)) return low;
  for (int halving = 0; halving < 60; ++halving) {
    const double middle = std::sqrt(low * high);
    (reached(middle) ? high : low) = middle;
  }
  return high;
}

int JobModel::knee(Scenario scenario, double efficiency_goal) const {
  const int per_host = scenario.placement.per_host;
  const auto holds = [&](int ranks) {
    scenario.placement = {ranks, std::min(per_host, ranks)};
    if (scenario.global_batch > 0 && scenario.global_batch < ranks * profile_.setup.accumulate) return false;
    return efficiency(scenario) >= efficiency_goal;
  };
  int low = 0, high = 1;
  for (; high < kMostKnee && holds(high); high *= 2) low = high;
  if (high >= kMostKnee) return kMostKnee;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (holds(middle) ? low : high) = middle;
  }
  return low;
}

Simulation simulate_steps(const JobStep& before, const JobStep& after, bool coupled, const StepNoise& noise,
                          const Placement& placement, const SimulationOptions& options) {
  JobSimulation job(noise, placement, options);
  Simulation simulation;
  double ended_s = 0;
  for (int i = 0; i < options.steps; ++i) {
    if (options.lost_host_after == i) job.lose_host();
    const JobStep& step = options.lost_host_after && i >= *options.lost_host_after ? after : before;
    const double end_s = coupled ? job.step(step) : job.uncoupled_step(step);
    simulation.step_s.push_back(end_s - ended_s);
    ended_s = end_s;
  }
  simulation.waiting = job.waiting();
  return simulation;
}

Simulation simulate(const JobModel& model, const Scenario& scenario, const SimulationOptions& options) {
  Scenario before = scenario;
  before.bandwidth *= options.thin_link;
  Scenario after = before;
  if (options.lost_host_after) {
    const int lost = (scenario.placement.ranks - 1) % scenario.placement.per_host + 1;
    if (lost == scenario.placement.ranks)
      throw ConfigError("--lose-host would leave no rank: all are on one host", "Use a smaller --per-host.");
    after.placement.ranks -= lost;
  }
  Simulation simulation = simulate_steps(model.step(before), model.step(after), model.is_coupled(scenario),
                                         model.profile().noise, scenario.placement, options);
  const auto images_of = [&](const Scenario& now) {
    return now.placement.ranks * model.profile().images * model.batch_of(now) / model.profile().batch;
  };
  double images_all = 0, all_s = 0;
  for (size_t i = 0; i < simulation.step_s.size(); ++i) {
    const bool lost = options.lost_host_after && static_cast<int>(i) >= *options.lost_host_after;
    images_all += images_of(lost ? after : before);
    all_s += simulation.step_s[i];
  }
  simulation.images_per_s = images_all / all_s;
  return simulation;
}

}  // namespace lockstep::predict
