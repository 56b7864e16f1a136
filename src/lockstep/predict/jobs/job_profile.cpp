#include "lockstep/predict/jobs/job_profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/measure/series.h"
#include "lockstep/predict/jobs/job_model.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/record/run_record.h"

namespace lockstep::predict {
namespace {

using results::BucketTimes;
using results::Run;
using results::RunRecord;

/// As shares of the mean, with mean 0; empty for too few.
std::vector<double> deviations(const std::vector<double>& values) {
  constexpr size_t kFewest = 4;
  if (values.size() < kFewest || !std::ranges::all_of(values, [](double s) { return std::isfinite(s); }))
    return {};
  const double mean = measure::mean_of(values);
  if (!(mean > 0)) return {};
  std::vector<double> shares;
  for (const double value : values) shares.push_back(value / mean - 1);
  return shares;
}

std::vector<double> computing_series(const results::RankBreakdown& rank) {
  std::vector<double> series = rank.series.step_s;
  for (size_t i = 0; i < series.size(); ++i) {
    if (i < rank.series.waiting_s.size()) series[i] -= rank.series.waiting_s[i];
    if (i < rank.series.transfer_s.size()) series[i] -= rank.series.transfer_s[i];
  }
  return series;
}

/// Mean correlation of the ranks' steps, from 0 to 1.
double common_share(const std::vector<std::vector<double>>& ranks) {
  double both = 0, own = 0;
  for (size_t a = 0; a < ranks.size(); ++a) {
    for (size_t b = 0; b < ranks.size(); ++b) {
      const size_t steps = std::min(ranks[a].size(), ranks[b].size());
      for (size_t i = 0; i < steps; ++i) (a == b ? own : both) += ranks[a][i] * ranks[b][i];
    }
  }
  const double pairs = static_cast<double>(ranks.size() - 1);
  return own > 0 ? std::clamp(both / pairs / own, 0.0, 1.0) : 0;
}

std::vector<double> times(std::vector<double> values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

/// Variation of a rank's computing (a step without waiting and transfer) in the breakdown of `run`, as shares
/// of its median. What ranks that share a host have in common, by the correlation of their steps, is the
/// host's part; ranks on several hosts have own parts only, because what all hosts have in common delays no
/// rank behind another. One rank: the steps of `single`, all of it the rank's own.
StepNoise own_noise(const results::RunRecord& record, const Run& run) {
  std::vector<std::vector<double>> ranks;
  if (run.breakdown && run.ranks > 1) {
    for (const results::RankBreakdown& rank : run.breakdown->ranks) {
      if (std::vector<double> shares = deviations(computing_series(rank)); !shares.empty())
        ranks.push_back(std::move(shares));
    }
  }
  if (ranks.size() < 2) {
    const Run* single = results::single_of(record, run);
    return {Spread(deviations(results::representative_steps(single == nullptr ? run : *single))), Spread()};
  }
  std::vector<double> all;
  for (const std::vector<double>& shares : ranks) all.insert(all.end(), shares.begin(), shares.end());
  const double common = common_share(ranks);
  const bool one_host = run.hosts == 1;
  return {Spread(times(all, std::sqrt(1 - common))),
          one_host && common > 0 ? Spread(times(all, std::sqrt(common))) : Spread()};
}

/// Deviations of a mean backward pass, and of its time without a core, that communication does not explain.
constexpr double kBackwardScatter = 0.05, kWaitingScatter = 0.01;
/// At most this share of backward is communication that it hides, and at most this share of that lengthens
/// it.
constexpr double kMostHidden = 0.9, kMostLoss = 0.9;
/// At most this share of hidden communication usually lengthens backward where the ranks' cores move bytes.
constexpr double kUsualLoss = 0.5;

/// Mean step of a rank.
double step_of(const Run& run) {
  return run.images_per_rank_step() * run.ranks / run.images_per_s;
}

/// Mean step of a rank alone between the first time that it was measured and the last.
double mid_step_of(const Run& run) {
  return step_of(run) / (run.again && run.again->ratio > 0 ? std::sqrt(run.again->ratio) : 1);
}

Placement placement_of(const Run& run) {
  return {run.ranks, (run.ranks + run.hosts - 1) / std::max(run.hosts, 1)};
}

/// Rows that differ in their number of ranks, or in what only tables need.
bool same_settings(const Run& a, const Run& b) {
  return results::same_work(a, b) && a.batch_per_rank == b.batch_per_rank && a.strategy == b.strategy &&
         a.backend == b.backend && a.bucket_mb == b.bucket_mb && a.strategy_options == b.strategy_options;
}

/// Rows of the same work but for the batch.
bool same_but_batch(const Run& a, const Run& b) {
  return a.model == b.model && std::ranges::all_of(results::kSettings, [&](const results::Setting& setting) {
           return !setting.is_attribute() || setting.has(results::Setting::kOfCommunication) ||
                  setting.same(a, b);
         });
}

BucketCaps caps_of(const JobProfile& profile) {
  return bucket_caps(profile.strategy, profile.bucket_mb, profile.wire);
}

/// Buckets whose bytes become final evenly over backward.
std::vector<GradientBucket> planned_buckets(const JobProfile& profile) {
  const GradientBucket all{.kind = profile.shape.gradients.value_or(CollectiveKind::kAllReduce),
                           .bytes = profile.parameter_bytes * profile.wire,
                           .ready_s = profile.computing_s()};
  return cut_again({all}, profile.forward_s, caps_of(profile));
}

void take_buckets(JobProfile& profile, const Run& run, const std::vector<BucketTimes>& buckets,
                  double scale) {
  double fetched_s = 0;
  for (size_t k = 0; k < buckets.size() && profile.shape.fetches_before_forward; ++k) {
    if (bucket_kind(run, profile.shape, k, buckets.size()) == profile.shape.values)
      fetched_s = std::max(fetched_s, buckets[k].ended_s);
  }
  double ready_s = 0;
  for (size_t k = 0; k < buckets.size(); ++k) {
    const CollectiveKind kind = bucket_kind(run, profile.shape, k, buckets.size());
    if (buckets[k].bytes <= 0 || kind == profile.shape.values) continue;
    const double own_s = std::clamp(scale * (buckets[k].ready_s - fetched_s), 0.0, profile.computing_s());
    ready_s = std::max(ready_s, own_s);
    profile.buckets.push_back({kind, static_cast<double>(buckets[k].bytes), ready_s});
  }
  if (run.bucket_mb > 0) find_tails(profile.buckets, caps_of(profile), profile.wire * profile.largest_bytes);
  if (profile.buckets.empty() && profile.shape.gradients) profile.buckets = planned_buckets(profile);
}

/// Phases without communication, at the pace of the run without stamps.
void take_phases(JobProfile& profile, const Run& run) {
  const results::PhaseTimes& mean = run.breakdown->mean;
  const double scale = step_of(run) / mean.step_s;
  profile.forward_s = scale * (mean.input_s + mean.forward_s);
  profile.backward_s = scale * mean.backward_s;
  profile.update_s = scale * mean.optimizer_s;
  profile.other_s = std::max(0.0, scale * mean.other_s);
  take_buckets(profile, run, mean_buckets(run), scale);
}

OwnCosts own_costs_of(const JobProfile& profile, const Run& run) {
  return own_costs(run, profile.shape, run.hosts == 1 && profile.fills_cores(placement_of(run)));
}

/// Time of a step in which ranks compute while collectives run.
double hidden_of(const JobProfile& profile, const Run& run) {
  const results::PhaseTimes& mean = run.breakdown->mean;
  const double hidden_s =
      run.breakdown->communication_s - mean.exposed_s() - own_costs_of(profile, run).late_s;
  return step_of(run) / mean.step_s * std::clamp(hidden_s, 0.0, kMostHidden * mean.backward_s);
}

/// The share of it that lengthens computing, where nothing tells.
double usual_loss(const JobProfile& profile, const Run& run) {
  const bool lengthens = run.ranks > 1 && run.hosts == 1 && profile.shape.overlaps;
  return lengthens && profile.fills_cores(placement_of(run)) ? std::min(kUsualLoss, profile.core_share) : 0;
}

/// Computing of a rank in a step. Rows that begin with one rank tell what communication adds (take_loss).
double own_computing_of(const JobProfile& profile, const Run& run, const Run& first) {
  const double exposed = run.breakdown->mean.exposed_s() / run.breakdown->mean.step_s;
  const double loss = first.ranks == 1 ? 0 : usual_loss(profile, run);
  return step_of(run) * (1 - exposed) - (loss > 0 ? loss * hidden_of(profile, run) : 0);
}

void sort_known(std::vector<KnownValue>& known) {
  std::ranges::stable_sort(known, {}, &KnownValue::at);
  const auto repeated = std::ranges::unique(known, {}, &KnownValue::at);
  known.erase(repeated.begin(), repeated.end());
}

/// Slowdown of ranks that share a host: by `independent` rows, or else by the strategy's own computing.
void take_sharing(JobProfile& profile, const RunRecord& record, const std::vector<const Run*>& rows) {
  profile.sharing = {{1, 1}};
  const Run& last = *rows.back();
  for (const Run& run : record.runs) {
    if (run.finished() && run.role() == results::Role::kControl && results::same_work(run, last) &&
        run.batch_per_rank == last.batch_per_rank)
      profile.sharing.push_back(
          {static_cast<double>(placement_of(run).per_host), step_of(run) / profile.alone_s});
  }
  if (profile.sharing.size() == 1) {
    for (const Run* run : rows) {
      const auto per_host = static_cast<double>(placement_of(*run).per_host);
      const double computing_s = own_computing_of(profile, *run, *rows.front());
      if (per_host > 1) profile.sharing.push_back({per_host, computing_s / profile.alone_s});
    }
  }
  sort_known(profile.sharing);
}

/// Seconds of a backward pass in which the rank's thread has no core; empty where that is not known, and
/// where other threads of the rank may lack theirs.
std::optional<double> without_core(const Run& run) {
  if (run.threads_per_rank != 1) return std::nullopt;
  double sum_s = 0;
  for (const results::RankBreakdown& rank : run.breakdown->ranks) {
    if (!(rank.processor.backward_s > 0)) return std::nullopt;
    sum_s += rank.mean.backward_s - rank.processor.backward_s;
  }
  return sum_s / static_cast<double>(run.breakdown->ranks.size());
}

/// Takes phi_c, the time that communication adds to backward, beyond what sharing a host does.
void take_loss(JobProfile& profile, const std::vector<const Run*>& rows) {
  const Run& first = *rows.front();
  const Run& last = *rows.back();
  if (last.ranks == 1 || !profile.shape.overlaps) return;
  const double hidden_s = hidden_of(profile, last), usual = usual_loss(profile, last);
  double loss = usual;
  if (first.ranks == 1 && hidden_s > 0) {
    const double slower = value_at(profile.sharing, placement_of(last).per_host);
    const double alone_s =
        step_of(first) * first.breakdown->mean.backward_s / first.breakdown->mean.step_s * slower;
    const auto waited_s = without_core(last), before_s = without_core(first);
    const bool known = waited_s && before_s;
    const double excess_s =
        std::clamp(known ? *waited_s - *before_s : profile.backward_s - alone_s, 0.0, hidden_s);
    // The least-squares estimate of a share around the usual one with a deviation of 1: little that is hidden
    // tells little.
    const double scatter2 = std::pow((known ? kWaitingScatter : kBackwardScatter) * profile.backward_s, 2);
    loss = (excess_s * hidden_s + usual * scatter2) / (hidden_s * hidden_s + scatter2);
    loss = std::min(loss, kMostLoss);
  }
  // In a second of hidden communication 1 / (1 + phi_c) seconds of computing are done.
  profile.loss.compute = loss / (1 - loss);
  if (!(profile.backward_s > 0)) return;
  const double left = 1 - loss * hidden_s / profile.backward_s;
  for (GradientBucket& bucket : profile.buckets) {
    if (bucket.ready_s > profile.forward_s)
      bucket.ready_s = profile.forward_s + left * (bucket.ready_s - profile.forward_s);
  }
  profile.backward_s *= left;
}

void take_alone(JobProfile& profile, const RunRecord& record, const std::vector<const Run*>& rows) {
  const Run& last = *rows.back();
  std::vector<KnownValue>& known = profile.alone_by_batch;
  for (const Run& run : record.runs) {
    if (run.finished() && run.images_per_s > 0 && run.role() == results::Role::kBaseline &&
        same_but_batch(run, last))
      known.push_back({static_cast<double>(run.batch_per_rank), mid_step_of(run)});
  }
  sort_known(known);
  if (known.empty()) {
    profile.alone_s = own_computing_of(profile, *rows.front(), *rows.front());
    profile.notes.push_back(
        "No rank was measured alone: efficiency is relative to a step without communication. 'lockstep "
        "bench' measures one, unless --no-controls is given; 'lockstep import --alone' adds one.");
  } else {
    profile.alone_s = time_of_batch(known, profile.batch);
  }
  profile.ideal_s = profile.alone_s;
  const Run* single = results::single_of(record, last);
  if (last.global_batch > 0 && single != nullptr)
    profile.ideal_s = mid_step_of(*single) * profile.batch / single->batch_per_rank;
  known.push_back({static_cast<double>(profile.batch), profile.alone_s});
  sort_known(known);
}

JobProfile profile_of(const RunRecord& record, const std::vector<const Run*>& rows) {
  const Run& last = *rows.back();
  JobProfile profile;
  profile.model = last.model;
  profile.setup = last;
  profile.strategy = last.role() == results::Role::kBaseline ? "ddp" : last.strategy;
  profile.options = last.strategy_options;
  profile.backend = last.backend;
  profile.unit = last.rate_unit();
  if (last.doubt.empty()) profile.speedup = last.speedup;
  profile.shape = strategy_shape(profile.strategy, profile.options)
                      .value_or(StrategyShape{.gradients = CollectiveKind::kAllReduce});
  profile.wire = wire_share(profile.strategy, profile.options);
  profile.batch = last.batch_per_rank;
  profile.images = last.images_per_rank_step();
  profile.bucket_mb = last.bucket_mb > 0 ? last.bucket_mb : 25;
  profile.parameter_bytes = 4.0 * static_cast<double>(last.parameters);
  profile.largest_bytes = 4.0 * static_cast<double>(last.largest_parameter);
  profile.tensors = static_cast<int>(std::max<int64_t>(last.parameter_tensors, 1));
  profile.placement = placement_of(last);
  profile.straggler = last.breakdown->straggler;
  if (last.device == "cpu" && last.threads_per_rank > 0 && !record.machines.empty())
    profile.ranks_with_cores = static_cast<double>(record.machines.front().cores) / last.threads_per_rank;
  profile.core_share = core_share_of(last);
  take_alone(profile, record, rows);
  take_phases(profile, last);
  take_sharing(profile, record, rows);
  take_loss(profile, rows);
  for (const Run* run : rows) {
    const results::PhaseTimes& mean = run->breakdown->mean;
    profile.measured.push_back(
        {placement_of(*run), step_of(*run), step_of(*run) * mean.waiting_s / mean.step_s});
    if (run->ranks == 1) continue;
    const OwnCosts own = own_costs_of(profile, *run);
    std::ranges::copy(own.points, std::back_inserter(profile.points));
    profile.loss.network = own.network_loss;
    profile.turn_s = own.turn_s;
  }
  profile.noise = own_noise(record, last);
  if (const int traced = static_cast<int>(last.breakdown->ranks.size()); traced < last.ranks)
    profile.notes.push_back(
        fmt::format("Traces are of {} of {} ranks: what these wait for the others counts as transfer.",
                    traced, last.ranks));
  return profile;
}

std::string commands_of(const std::string& network) {
  return fmt::format("'lockstep bench --model {} --ranks 1,2 --breakdown --json run.json' measures one.",
                     network);
}

/// The usable rows that the choice leaves; throws ConfigError where it leaves none, or more than one job.
std::vector<const Run*> chosen_rows(const RunRecord& record, const std::string& name,
                                    const ProfileChoice& choice) {
  std::vector<const Run*> rows;
  std::set<std::string> networks;
  // Rows of one rank without a strategy may be of further batches, beside those of a strategy.
  std::set<int> batches, batches_alone;
  for (const Run& run : record.runs) {
    if (!choice.model.empty() && run.model != choice.model) continue;
    if (!choice.strategy.empty() && run.strategy != choice.strategy) continue;
    if (choice.batch > 0 && run.batch_per_rank != choice.batch) continue;
    if (!is_usable(run) || run.role() == results::Role::kControl) continue;
    rows.push_back(&run);
    networks.insert(run.model);
    if (run.global_batch == 0)
      (run.role() == results::Role::kStrategy ? batches : batches_alone).insert(run.batch_per_rank);
  }
  const std::string network = !choice.model.empty() ? choice.model
                              : record.runs.empty() ? "resnet50"
                                                    : record.runs.front().model;
  if (rows.empty()) {
    throw ConfigError(fmt::format("'{}' has no breakdown of {}{}, which a prediction starts from", name,
                                  network, choice.strategy.empty() ? "" : " under " + choice.strategy),
                      commands_of(network));
  }
  if (networks.size() > 1) {
    throw ConfigError(fmt::format("'{}' holds several networks: {}", name, fmt::join(networks, ", ")),
                      fmt::format("Name one: --model {}.", *networks.begin()));
  }
  const std::set<int>& of_job = batches.empty() ? batches_alone : batches;
  if (of_job.size() > 1) {
    throw ConfigError(fmt::format("'{}' holds several batches per rank: {}", name, fmt::join(of_job, ", ")),
                      fmt::format("Name one: --batch {}.", *of_job.begin()));
  }
  for (const Run* run : rows) {
    if (!knows_hosts(*run))
      throw ConfigError(fmt::format("'{}' does not say on how many hosts its {} ranks ran", name, run->ranks),
                        "Say how many share a host: --per-host 8.");
    if (run->strategy_options.find("--hierarchical") != std::string::npos)
      throw ConfigError(
          fmt::format("'{}': --hierarchical has no model to predict {} by", name, run->strategy),
          "Measure it without --hierarchical.");
    const double step_s = run->breakdown->mean.step_s;
    if (std::isfinite(run->images_per_s) && run->images_per_s > 0 && std::isfinite(step_s) && step_s > 0)
      continue;
    throw ConfigError(fmt::format("'{}': {} with {} at {} ranks has no step time that is a number above 0",
                                  name, run->model, run->strategy, run->ranks),
                      commands_of(network));
  }
  return rows;
}

struct Cost {
  double sum_s = 0;
  int count = 0;
};
using CostBySize = std::map<int64_t, Cost>;

/// Puts collectives that ran at the same time, in lanes, in turn: in their time each moves its bytes.
void put_in_turn(std::vector<BucketTimes>& buckets) {
  const double instant_s = 1e-6;
  for (auto first = buckets.begin(), next = first; first != buckets.end(); first = next) {
    double begin_s = std::max(first->started_s, first->all_arrived_s), end_s = first->ended_s;
    double bytes = static_cast<double>(first->bytes);
    for (next = first + 1; next != buckets.end() && next->started_s < end_s - instant_s; ++next) {
      end_s = std::max(end_s, next->ended_s);
      bytes += static_cast<double>(next->bytes);
    }
    if (next == first + 1 || bytes <= 0) continue;
    const double per_byte_s = std::max(0.0, end_s - begin_s) / bytes;
    for (; first != next; ++first) {
      first->all_arrived_s = begin_s;
      first->ended_s = begin_s += per_byte_s * static_cast<double>(first->bytes);
    }
  }
}

void put_onto_line(CostBySize& costs, const Run& run, CollectiveKind kind) {
  const auto smallest = static_cast<double>(costs.begin()->first);
  if (smallest <= kSmallBytes) return;
  double all_s = 0, bytes = 0, count = 0;
  for (const auto& [size, cost] : costs) {
    all_s += cost.sum_s;
    bytes += static_cast<double>(size) * cost.count;
    count += cost.count;
  }
  const double latency_s = assumed_latency_s(run.backend, {run.ranks, kind, smallest, all_s / count});
  for (auto& [size, cost] : costs)
    cost.sum_s = cost.count * (latency_s + (all_s - count * latency_s) / bytes * static_cast<double>(size));
}

/// A collective on cores that compute, of which `left_s` was left when its turn came.
struct SharedCoreTime {
  double time_s, left_s, bytes;
  Shape shape;
};

/// Logarithms of the link's seconds per byte, of 1 + phi_n, and of the wait for a turn of the processor.
struct SharedCoreModel {
  std::array<double, 3> logs;

  double network_loss() const { return std::expm1(logs[1]); }
  double turn_s() const { return std::exp(logs[2]); }
  double cost_s(const Shape& shape, double bytes) const {
    return kAssumedRound_s * shape.rounds + std::exp(logs[0]) * shape.volume * bytes;
  }
  double time_s(const SharedCoreTime& of) const {
    const QueuedCollective collective{.cost_s = cost_s(of.shape, of.bytes),
                                      .late_s = turn_s() * of.shape.rounds};
    return busy_time(collective, 0, of.left_s, {.network = network_loss()}).until_s;
  }
};

/// Usual values, and standard deviations of logarithms around them: a thread that does nothing but move bytes
/// has part of a core, and waits in each round for the end of a time slice of Linux (0.7 ms * (1 + log2 of
/// the processors)).
constexpr double kUsualNetworkLoss = 0.5, kUsualTurn_s = 1.4e-3;
constexpr double kNetworkLossDeviation = 0.2, kTurnDeviation = 0.7, kTimeDeviation = 0.15;

/// The most probable model of threads that move bytes in `core_share` of their time, by a search along each
/// of its numbers.
SharedCoreModel shared_core_model(const std::vector<SharedCoreTime>& times, double core_share) {
  double bytes = 0, all_s = 0;
  for (const SharedCoreTime& time : times) {
    bytes += time.shape.volume * time.bytes;
    all_s += time.time_s;
  }
  const SharedCoreModel usual{
      {std::log(all_s / bytes), std::log1p(core_share * kUsualNetworkLoss), std::log(kUsualTurn_s)}};
  const auto badness = [&](const SharedCoreModel& model) {
    if (model.network_loss() < 0) return std::numeric_limits<double>::infinity();
    double sum = std::pow((model.logs[1] - usual.logs[1]) / kNetworkLossDeviation, 2) +
                 std::pow((model.logs[2] - usual.logs[2]) / kTurnDeviation, 2);
    for (const SharedCoreTime& time : times)
      sum += std::pow(std::log(model.time_s(time) / time.time_s) / kTimeDeviation, 2);
    return sum;
  };
  SharedCoreModel best = usual;
  double least = badness(best);
  for (double step = 1; step > 1e-3; step /= 2) {
    for (bool better = true; better;) {
      better = false;
      for (double& number : best.logs) {
        for (const double change : {step, -step}) {
          const double before = std::exchange(number, number + change);
          const double found = badness(best);
          if (found < least) {
            least = found;
            better = true;
          } else {
            number = before;
          }
        }
      }
    }
  }
  return best;
}

/// Share of computing that does not shrink with the batch, where one batch was measured.
constexpr double kFixedShare = 0.1;

}  // namespace

std::vector<JobProfile> read_profiles(const RunRecord& record, const std::string& name,
                                      const ProfileChoice& choice) {
  const std::vector<const Run*> rows = chosen_rows(record, name, choice);
  // The best row of each strategy stands for it.
  std::vector<const Run*> best;
  for (const Run* run : rows) {
    const auto same =
        std::ranges::find(best, run->strategy, [](const Run* other) { return other->strategy; });
    if (same == best.end()) {
      best.push_back(run);
    } else if (run->ranks > (*same)->ranks ||
               (run->ranks == (*same)->ranks && run->images_per_s > (*same)->images_per_s)) {
      *same = run;
    }
  }
  if (best.size() > 1)
    std::erase_if(best, [](const Run* run) { return run->role() == results::Role::kBaseline; });
  std::vector<JobProfile> profiles;
  for (const Run* one : best) {
    std::vector<const Run*> of_job;
    std::ranges::copy_if(rows, std::back_inserter(of_job),
                         [&](const Run* run) { return same_settings(*run, *one); });
    std::ranges::stable_sort(of_job, [](const Run* a, const Run* b) {
      return a->ranks != b->ranks ? a->ranks < b->ranks : a->images_per_s > b->images_per_s;
    });
    const auto repeated = std::ranges::unique(of_job, {}, &Run::ranks);
    of_job.erase(repeated.begin(), repeated.end());
    profiles.push_back(profile_of(record, of_job));
    if (one->parameters == 0 && profiles.back().buckets.empty() && profiles.back().shape.gradients)
      throw ConfigError(fmt::format("'{}' does not say how large the gradients of {} are", name, one->model),
                        commands_of(one->model));
  }
  return profiles;
}

std::vector<BucketTimes> mean_buckets(const Run& run) {
  std::vector<BucketTimes> mean;
  const auto& ranks = run.breakdown->ranks;
  size_t count = ranks.front().buckets.size();
  for (const auto& rank : ranks) count = std::min(count, rank.buckets.size());
  for (size_t k = 0; k < count; ++k) {
    BucketTimes sum{.bytes = ranks.front().buckets[k].bytes};
    for (const auto& rank : ranks) {
      for (double BucketTimes::*time : {&BucketTimes::ready_s, &BucketTimes::started_s,
                                        &BucketTimes::all_arrived_s, &BucketTimes::ended_s})
        sum.*time += rank.buckets[k].*time / static_cast<double>(ranks.size());
    }
    mean.push_back(sum);
  }
  return mean;
}

CollectiveKind bucket_kind(const Run& run, const StrategyShape& shape, size_t index, size_t count) {
  if (run.recorded && index < run.recorded->collectives.size())
    return collective_named(run.recorded->collectives[index].kind).value_or(CollectiveKind::kAllReduce);
  if (!shape.values) return shape.gradients.value_or(CollectiveKind::kAllReduce);
  const bool first_half = index < count / 2;
  return first_half == shape.fetches_before_forward ? *shape.values : *shape.gradients;
}

double core_share_of(const Run& run) {
  if (!run.resources || !(run.breakdown->communication_s > 0)) return 1;
  const double core_s =
      run.resources->communication_threads.value_or(0) * run.threads_per_rank * run.breakdown->mean.step_s;
  return core_s > 0 ? std::min(core_s / run.breakdown->communication_s, 1.0) : 1;
}

OwnCosts own_costs(const results::Run& run, const StrategyShape& shape, bool fills_cores) {
  std::vector<BucketTimes> buckets = mean_buckets(run);
  put_in_turn(buckets);
  const results::PhaseTimes& mean = run.breakdown->mean;
  double computed_s = mean.input_s + mean.forward_s + mean.backward_s;
  std::map<CollectiveKind, CostBySize> kinds;
  std::vector<SharedCoreTime> times;
  double free_s = 0;
  for (size_t k = 0; k < buckets.size(); ++k) {
    const BucketTimes& bucket = buckets[k];
    if (bucket.bytes <= 0) continue;
    const CollectiveKind kind = bucket_kind(run, shape, k, buckets.size());
    Cost& cost = kinds[kind][bucket.bytes];
    const double begin_s = std::max(bucket.all_arrived_s, free_s);
    const double time_s = std::max(0.0, bucket.ended_s - begin_s);
    cost.sum_s += time_s;
    ++cost.count;
    free_s = std::max(free_s, bucket.ended_s);
    // Ranks compute when they have fetched all values.
    if (shape.fetches_before_forward && kind == shape.values) computed_s += time_s;
    const auto bytes = static_cast<double>(bucket.bytes);
    const Algorithm algorithm = library_algorithm(run.backend, kind, run.ranks, bytes);
    if (time_s > 0)
      times.push_back(
          {time_s, std::max(0.0, computed_s - begin_s), bytes, shape_of(kind, algorithm, run.ranks)});
  }
  OwnCosts own;
  const bool shares_cores = fills_cores && !times.empty();
  SharedCoreModel model{};
  if (shares_cores) {
    model = shared_core_model(times, core_share_of(run));
    own.network_loss = model.network_loss();
    own.turn_s = model.turn_s();
    for (const SharedCoreTime& time : times)
      own.late_s += std::min(own.turn_s * time.shape.rounds, time.left_s);
  }
  for (auto& [kind, costs] : kinds) {
    if (!shares_cores) put_onto_line(costs, run, kind);
    for (const auto& [size, cost] : costs) {
      const auto bytes = static_cast<double>(size);
      const Shape moved = shape_of(kind, library_algorithm(run.backend, kind, run.ranks, bytes), run.ranks);
      own.points.push_back(
          {run.ranks, kind, bytes, shares_cores ? model.cost_s(moved, bytes) : cost.sum_s / cost.count});
    }
  }
  return own;
}

double value_at(const std::vector<KnownValue>& known, double x) {
  if (known.size() == 1) return known.front().value;
  auto above = std::ranges::upper_bound(known, x, {}, &KnownValue::at);
  const bool beyond = above == known.end() || above == known.begin();
  if (above == known.end()) --above;
  if (above == known.begin()) ++above;
  const KnownValue &low = *(above - 1), &high = *above;
  const double slope = high.at > low.at ? (high.value - low.value) / (high.at - low.at) : 0;
  if (!beyond) return low.value + slope * (x - low.at);
  const KnownValue& end = x < low.at ? low : high;
  return end.value + std::max(0.0, slope) * (x - end.at);
}

double time_of_batch(const std::vector<KnownValue>& known, double batch) {
  if (known.size() > 1) return std::max(value_at(known, batch), kFixedShare * known.front().value);
  return known.front().value * (kFixedShare + (1 - kFixedShare) * batch / known.front().at);
}

}  // namespace lockstep::predict
