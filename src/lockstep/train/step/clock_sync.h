#pragma once

#include "lockstep/comm/communicator.h"

namespace lockstep::train {

/// How this rank's steady clock differs from rank 0's.
struct ClockOffset {
  /// This rank's clock minus rank 0's, in seconds.
  double offset_s = 0;
  /// The offset lies within plus or minus this.
  double error_s = 0;
};

/// Collective. Exchanges messages with rank 0 and takes the exchange with the shortest round trip: the other
/// clock's reading belongs to some moment of it, its middle is the estimate and half of it the error
/// (Cristian 1989).
ClockOffset estimate_clock_offset(comm::Communicator& group);

}  // namespace lockstep::train
