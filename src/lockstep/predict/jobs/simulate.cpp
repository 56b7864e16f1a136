#include "lockstep/predict/jobs/simulate.h"

#include <algorithm>
#include <random>

#include "lockstep/base/error.h"

namespace lockstep::predict {
namespace {

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
