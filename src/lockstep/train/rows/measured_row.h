#pragma once

#include <optional>
#include <vector>

#include "lockstep/measure/phases.h"
#include "lockstep/results/record/run_record.h"
#include "lockstep/train/rows/row_runner.h"

namespace lockstep::train {

/// All that was measured of a row, on its rank 0.
struct MeasuredRow {
  /// As it was measured, with the bucket size that was found for it.
  RowPlan row;
  RowSamples samples;
  /// From the breakdown run; empty without one.
  std::vector<measure::RankStamps> stamps;
  /// From the run that a trace shows instead of that one, with the kernels; empty without one.
  std::vector<measure::RankStamps> kernels;
  std::optional<results::BucketTuning> tuning;
  std::optional<double> limit_images_per_s;
  std::vector<results::LayerTimes> layers;
};

/// The record of the row, complete but for what relates it to other rows (results::assign_baselines,
/// results::assign_factors). Hosts, backend and threads per rank are those of the row's setup.
results::Run run_of(const MeasuredRow& measured);

}  // namespace lockstep::train
