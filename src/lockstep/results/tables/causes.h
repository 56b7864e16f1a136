#pragma once

#include <string>
#include <vector>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// Why a recorded training is slower than it could be.
struct Cause {
  enum class Kind {
    /// A rank is waited for because one of its phases takes longer.
    kSlowRank,
    /// A rank is waited for because it trains more samples.
    kUnequalBatches,
    /// Every rank waits for its batches.
    kInput,
    /// Every micro-batch reduces its gradients, where the last would do.
    kReducedTooOften,
    /// Buffers are broadcast in the forward pass.
    kBuffers,
    /// One bucket holds most of the bytes, and the end of the step.
    kLargeBucket,
    /// The last bucket is exposed, because backward has nothing left to hide it behind.
    kLateBucket,
    /// Communication takes longer than the backward pass that could hide it.
    kSlowLink,
    /// The host waits for the device within steps, and the device for the host.
    kSynchronizing,
    /// The device waits for a host that issues its kernels too slowly.
    kSlowHost,
    /// Every k-th step takes longer.
    kPeriodic
  };
  Kind kind;
  /// Seconds per step that it costs.
  double lost_s = 0;
  /// The number behind it, as a clause: "rank 1's input takes 25.0 ms longer than that of the others".
  std::string text;
  /// A sentence.
  std::string advice;
};

/// Causes of a recorded run, the largest first: those that cover 80 % of what they explain (waiting,
/// transfer, or the input itself) and cost 2 % of a step or more. Empty for a healthy run, and for one that
/// was not recorded.
std::vector<Cause> causes_of(const Run& run);

}  // namespace lockstep::results
