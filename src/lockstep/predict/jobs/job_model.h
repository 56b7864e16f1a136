#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/predict/jobs/job_profile.h"
#include "lockstep/predict/jobs/job_step.h"

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

}  // namespace lockstep::predict
