#pragma once

#include "lockstep/comm/communicator.h"

namespace lockstep::train {

/// The difference between this rank's steady clock and rank 0's.
struct ClockOffset {
  /// This rank's clock minus rank 0's, in seconds.
  double offset_s = 0;
  /// The offset lies within plus or minus this.
  double error_s = 0;
};

/// Exchanges messages with rank 0 and uses the exchange with the shortest round trip: the other clock was
/// read at some moment of it, so its middle is the estimate and half of it the error (Cristian 1989).
/// Collective.
ClockOffset estimate_clock_offset(comm::Communicator& group);

}  // namespace lockstep::train
