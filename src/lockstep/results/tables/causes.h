#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// Collectives of fewer bytes take as long as their rounds do: latency.
inline constexpr int64_t kLatencyBytes = 100'000;
/// The fewest steps in the window that tell a cause from chance.
inline constexpr int kFewestSteps = 3;

/// Why a recorded training is slower than it could be.
struct Cause {
  /// docs/your-training.md says what tells each.
  enum class Kind {
    kThreads,
    kWarmUp,
    kSlowRank,
    kUnequalBatches,
    kUnequalSizes,
    kInput,
    kFewInputs,
    kReducedTooOften,
    kBuffers,
    kBlocking,
    kManyCollectives,
    kLatency,
    kAfterBackward,
    kOneBucket,
    kSlowLink,
    kLinkOrLateRanks,
    kSynchronizing,
    kSlowHost,
    kSkippedUpdates,
    kPeriodic
  };
  Kind kind;
  /// Seconds per step that it costs; 0: not known.
  double lost_s = 0;
  /// The number behind it, as a clause: "rank 1's input takes 25.0 ms longer than that of the others".
  std::string text;
  /// A sentence.
  std::string advice;
};

/// Causes of a recorded run, first those whose cost is not known, then the largest: those that cover 80 % of
/// what they explain (waiting, transfer, or the input itself) and cost 2 % of a step or more. Of causes of
/// the same milliseconds there is one. Empty for a healthy run, for one that was not recorded, and for fewer
/// than kFewestSteps.
std::vector<Cause> causes_of(const Run& run);

}  // namespace lockstep::results
