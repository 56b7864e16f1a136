#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/train/rows/step_sample.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::train {

/// The circumstances of a sweep that decide, beside its rows, how long it takes.
struct SweepPlace {
  std::string backend;
  /// Ranks of one host, and the cores that they may use together.
  int local_ranks = 1;
  int cores = 1;
  int threads_per_rank = 1;
  bool breakdown = false;
  bool layers = false;
  bool limit = false;
};

/// Expected durations of a sweep's rows on processors. Every network of the sweep is trained for some steps
/// in the calling thread; all of these together take about `budget_s`.
class PlanDuration {
 public:
  PlanDuration(const std::vector<RowPlan>& rows, const SweepPlace& place, double budget_s);

  /// Seconds of a row with what is measured beside its steps; empty on a GPU, of whose speed the processor's
  /// says nothing, and for a network from a file, which has whole batches only.
  std::optional<double> row_s(const RowPlan& row) const;
  /// Seconds of one launch: its rows, its limits and the start of the ranks; rows of unknown duration are
  /// left out.
  double launch_s() const { return launch_s_; }
  /// Whether some row ends by itself, once its median is known well enough: earlier or later than expected.
  bool open_ended() const { return open_ended_; }

  /// The most images of any step that was tried; 0: none was.
  int images() const;

 private:
  double step_s(const RowPlan& row, const StepSample& sample) const;

  SweepPlace place_;
  /// By network, image size and what computes it.
  std::map<std::string, StepSample> samples_;
  double launch_s_ = 0;
  bool open_ended_ = false;
};

}  // namespace lockstep::train
