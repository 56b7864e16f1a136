#pragma once

#include <string>
#include <vector>

#include "lockstep/predict/jobs/collectives.h"

namespace lockstep::predict {

/// Gradients that are sent together.
struct GradientBucket {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  double bytes = 0;
  /// Computing time from the begin of a step until they are final.
  double ready_s = 0;
  /// Bytes at its end that are of one tensor, which is final as a whole; 0: not known.
  double tail_bytes = 0;
};

/// Where a strategy cuts gradients: c10d's Reducer (ddp) has a smaller cap for its first bucket, and closes
/// each with the tensor that reaches the cap; others cut at the cap.
struct BucketCaps {
  double bytes = 0;
  double first_bytes = bytes;
  bool whole_tensors = false;
};

/// Caps of a strategy in bytes on the wire: `bucket_mb` counts fp32, of which `wire` is sent.
BucketCaps bucket_caps(const std::string& strategy, double bucket_mb, double wire);

/// Finds what of buckets that were cut by `caps` is of the tensor that closed them: all beyond the cap, and
/// the largest tensor if it is larger than the cap.
void find_tails(std::vector<GradientBucket>& buckets, const BucketCaps& caps, double largest_bytes);

/// Cuts gradients into buckets by `caps`, each ready when the bytes of `buckets` until its end are: those of
/// a bucket become ready evenly since the one before (the first: since `begin_s`), its tail at its end.
std::vector<GradientBucket> cut_again(const std::vector<GradientBucket>& buckets, double begin_s,
                                      const BucketCaps& caps);

}  // namespace lockstep::predict
