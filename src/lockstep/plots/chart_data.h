#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/results/record/run_record.h"

namespace lockstep::plots {

/// Step times of a run in seconds, in the order in which the steps ran; entries that are not finite are left
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

/// The smallest and the largest value of each of `bins` bins, in their order: all that a drawing of `bins`
/// pixels can show of the series. Indices count from `first`.
std::vector<Sample> thinned(std::span<const double> values, size_t bins, double first);

/// Number of values in each of `bins` equal parts of low..high; values outside are left out.
std::vector<double> histogram(std::span<const double> values, double low, double high, size_t bins);

/// Lane of each bucket, so that no two buckets in one lane overlap. Once all `most` lanes are taken, a bucket
/// goes to the lane that is free first.
std::vector<size_t> bucket_lanes(const std::vector<results::BucketTimes>& buckets, size_t most);

/// At most `most` ranks to show: the first, the last, the straggler, and others spread evenly between them.
std::vector<size_t> chosen_ranks(const results::Breakdown& breakdown, size_t most);

}  // namespace lockstep::plots
