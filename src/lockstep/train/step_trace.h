#pragma once

#include <vector>

#include "lockstep/train/traced_communicator.h"

namespace lockstep::train {

/// When the phases of one step ended on this rank, in seconds on this host's steady clock. `begin_s` is the
/// end of the step before.
struct StepStamps {
  double begin_s = 0;
  double input_s = 0;
  double forward_s = 0;
  /// autograd returned.
  double backward_s = 0;
  /// The last collective was waited for.
  double combined_s = 0;
  double applied_s = 0;
  double end_s = 0;
  std::vector<CollectiveStamp> collectives;
};

}  // namespace lockstep::train
