#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/predict/jobs/job_profile.h"

namespace lockstep::predict {

/// A job to predict: as it was measured but for what is set here.
struct Scenario {
  Placement placement;
  /// Images per rank and batch; 0: as measured.
  double batch = 0;
  /// Strong scaling: the batch of the whole job; 0: weak scaling.
  double global_batch = 0;
  /// Empty: as measured.
  std::string strategy = {};
  /// MiB; 0: as measured.
  double bucket_mb = 0;
  /// Steps of local_sgd from one exchange to the next; 0: as measured.
  int sync_every = 0;
  /// Rank of gradients (--wire powersgd:R); 0: as measured.
  int powersgd = 0;
  /// Bytes of gradients, bandwidth, latency and speed of computing, relative to what was measured; bandwidth
  /// and latency of the network, where one is given and the ranks are on several hosts.
  double wire = 1, bandwidth = 1, latency = 1, compute = 1;
  bool stragglers = true;
};

/// Factors whose product is the efficiency, each a step time over the next: smaller batches, ranks that share
/// a host, the strategy's own computing, exposed communication, waiting for the slowest rank, and what was
/// measured beside all of these.
struct PredictedFactors {
  double batch = 1, machine = 1, strategy = 1, transfer = 1, stragglers = 1, unexplained = 1;
};

struct JobPrediction {
  Placement placement;
  double batch = 0;
  double step_s = 0;
  double images_per_s = 0;
  /// Against one rank alone with the measured batch, or with that of the whole job; low and high: the
  /// interval that holds 90 %.
  double efficiency = 0, low = 0, high = 0;
  PredictedFactors factors;
  /// The algorithm of the largest bucket's collective; empty: there is none.
  std::string algorithm = {};
  /// Quantities beyond the measured ones: "ranks", "hosts", "batch".
  std::vector<std::string> extrapolated = {};
  /// Measured step at this placement; empty: none.
  std::optional<double> measured_s = {};
  /// Steps of the draws behind the interval, which all predictions of a model share.
  std::vector<double> drawn_s = {};
};

/// The closed form of docs/predicting.md for one strategy.
class JobModel {
 public:
  /// Costs of collectives are those of `table`. Where measured steps are longer than the model's, the rest is
  /// added: measured waiting to that for other ranks, what remains as unexplained; where they are shorter,
  /// the noise is reduced, then the step scaled. Between numbers of ranks by the logarithm, beyond them as
  /// the nearest, and nothing at one rank, which is no faster than the one alone. Throws ConfigError where
  /// the table is empty and the strategy communicates.
  JobModel(JobProfile profile, CollectiveTable table);

  const JobProfile& profile() const { return profile_; }
  const CollectiveTable& table() const { return table_; }
  /// Assumptions, the profile's notes included.
  const std::vector<std::string>& notes() const { return notes_; }

  /// Throws ConfigError for a strategy that lockstep lacks, and for fewer images than ranks.
  JobPrediction predict(const Scenario& scenario) const;
  /// The rate alone.
  double images_per_s(const Scenario& scenario) const;
  double efficiency(const Scenario& scenario) const;

  /// The step of a rank, scaled as predictions are, and whether the ranks wait for each other.
  JobStep step(const Scenario& scenario) const;
  /// Images per rank and batch.
  double batch_of(const Scenario& scenario) const;
  /// The link that its largest bucket meets; for 2 ranks or more.
  Link present_link(const Scenario& scenario) const;
  /// Standard deviation of the logarithm of measured over predicted steps.
  double misfit() const { return misfit_; }
  bool is_coupled(const Scenario& scenario) const { return shape_of_job(scenario).coupled; }

  /// The bandwidth that `efficiency` needs relative to the present one; empty: no bandwidth reaches it. At
  /// most a millionth: any does.
  std::optional<double> bandwidth_for(Scenario scenario, double efficiency) const;
  /// The largest number of ranks until which every doubling from 1 stays at `efficiency` or above; kMostKnee
  /// or more is kMostKnee.
  int knee(Scenario scenario, double efficiency) const;

 private:
  /// Uncertain quantities relative to their point estimates.
  struct Draw {
    double computing = 1, sharing = 1, transfer = 1, latency = 1, noise = 1, all = 1;
  };
  /// Steps of growing reality: the ratio of each two is a factor.
  struct Steps {
    double ideal_s, batch_s, machine_s, strategy_s, transfer_s, stragglers_s, all_s;
  };
  /// What measured steps have beyond the model's, by log2 of the ranks: a factor's logarithm, at most 0, and
  /// seconds.
  struct Rest {
    std::vector<KnownValue> log_scale, waiting_s, unexplained_s;
  };

  StrategyShape shape_of_job(const Scenario& scenario) const;
  double slowdown(const Placement& placement, double draw) const;
  double relative_time(double batch) const;
  /// Bytes of a gradient on the wire relative to fp32.
  double wire_of(const Scenario& scenario) const;
  double rest(const std::vector<KnownValue>& of, int ranks) const;
  void take_rest();
  std::vector<GradientBucket> buckets_of(const Scenario& scenario, const StrategyShape& shape) const;
  void add_communication(JobStep& step, const Scenario& scenario, const Draw& draw) const;
  /// Seconds that converting gradients for a 16-bit wire adds to the measured computing; negative: saves.
  double converting_s(const Scenario& scenario) const;
  double update_s(const Scenario& scenario) const;
  JobStep computing_step(const Scenario& scenario, const Draw& draw) const;
  Steps steps(const Scenario& scenario, const Draw& draw, const std::vector<double>& noise) const;
  std::vector<double> noise_of(const Scenario& scenario, const StrategyShape& shape) const;

  JobProfile profile_;
  CollectiveTable table_;
  std::vector<std::string> notes_;
  Rest rest_;
  double misfit_ = 0;
};

inline constexpr int kMostKnee = 1 << 16;

/// Efficiency that a job should have.
inline constexpr double kGoodEfficiency = 0.9;

struct SimulationOptions {
  int steps = 100;
  uint64_t seed = 1;
  /// The last rank computes so many times as long.
  double slow_rank = 1;
  /// One link has this share of the others' bandwidth, which every collective waits for.
  double thin_link = 1;
  /// The last host is lost after so many steps, and the others go on without it.
  std::optional<int> lost_host_after = {};
};

struct Simulation {
  /// From the end of the slowest rank's last step to the end of its next.
  std::vector<double> step_s;
  double images_per_s = 0;
  /// Share of a step by which it would be shorter if all ranks were as fast as one of them, mean over ranks;
  /// 0 for ranks that do not wait for each other.
  double waiting = 0;
};

/// Steps of all ranks, bucket by bucket: each rank draws its pace in every step (a host's part and its own),
/// a collective begins when its last rank is ready and the one before has ended, and a rank's next step
/// begins at the end of its own. The closed form of `model` has neither the carry from step to step nor ranks
/// that differ. Takes memory for the ranks, and time for ranks x steps x buckets.
Simulation simulate(const JobModel& model, const Scenario& scenario, const SimulationOptions& options);

/// The same for steps that are given: `before`, and from options.lost_host_after on `after` with fewer ranks.
/// Images are not counted.
Simulation simulate_steps(const JobStep& before, const JobStep& after, bool coupled, const StepNoise& noise,
                          const Placement& placement, const SimulationOptions& options);

/// `scenario` with a change as on a command line: bandwidth=2x, bandwidth=25gbit, latency=0, latency=0.5x,
/// bucket=10, strategy=sharded, wire=bf16, no-straggler, batch=64, batch=2x, compute=2x, ranks=8. Throws
/// ConfigError for any other, for buckets of a strategy without them, and for a bandwidth where the present
/// one is not known.
Scenario changed(const JobModel& model, Scenario scenario, const std::string& change);

struct ChangeEffect {
  std::string change;
  JobPrediction prediction;
  /// Rate over the unchanged one, minus 1; low and high: the 90 % interval, in which what is uncertain
  /// changes both rates alike, but for the model's misfit.
  double gain = 0, low = 0, high = 0;
  /// JobModel::knee at an efficiency of 90 %.
  int knee = 0;
};

/// Effects of the changes, the largest gain first. The placement of `scenario` may leave a host partly empty,
/// which ranks=8 then fills.
std::vector<ChangeEffect> effects_of(const JobModel& model, const Scenario& scenario,
                                     const std::vector<std::string>& changes);

/// Changes worth a try for a job under the profile's strategy.
std::vector<std::string> usual_changes(const JobProfile& profile);

/// A link of "25gbit,20us" or "25gbit" (no latency). Throws ConfigError for any other text.
Link parse_network(const std::string& text);

}  // namespace lockstep::predict
