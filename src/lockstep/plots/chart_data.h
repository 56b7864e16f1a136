#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/results/record/run_record.h"

namespace lockstep::plots {

/// Step times of a run in the order in which they ran, in seconds; the entries that are not finite are left
/// out.
struct StepSeries {
  std::vector<double> warmup_s;
  std::vector<double> measured_s;
};
StepSeries step_series(const results::Run& run);

struct Sample {
  double index = 0;
  double value = 0;
};

/// At most about 2 * `bins` of the values, of each bin the smallest and the largest in their order: what a
/// drawing of `bins` pixels shows of the series. Indices count from `first`.
std::vector<Sample> thinned(std::span<const double> values, size_t bins, double first);

/// How many of the values lie in each of `bins` equal parts of low..high; others are left out.
std::vector<double> histogram(std::span<const double> values, double low, double high, size_t bins);

/// Which of at most `most` lanes each bucket is drawn in, so that no two overlap as long as there are lanes
/// enough; then the one that is free first.
std::vector<size_t> bucket_lanes(const std::vector<results::BucketTimes>& buckets, size_t most);

/// At most `most` ranks to show: the first, the last, the straggler, and others spread evenly.
std::vector<size_t> chosen_ranks(const results::Breakdown& breakdown, size_t most);

}  // namespace lockstep::plots
