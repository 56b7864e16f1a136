#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/results/record/breakdown.h"

namespace lockstep::plots {

/// Which of at most `most` lanes each bucket is drawn in, so that no two overlap as long as there are lanes
/// enough; then the one that is free first.
std::vector<size_t> bucket_lanes(const std::vector<results::BucketTimes>& buckets, size_t most);

/// At most `most` ranks to show: the first, the last, the straggler, and others spread evenly.
std::vector<size_t> chosen_ranks(const results::Breakdown& breakdown, size_t most);

}  // namespace lockstep::plots
