#pragma once

#include <cstdint>

#include "lockstep/comm/communicator.h"

namespace lockstep::train {

/// The difference between this rank's steady clock and rank 0's.
struct ClockOffset {
  /// This rank's clock minus rank 0's, in seconds.
  double offset_s = 0;
  /// The offset lies within plus or minus this.
  double error_s = 0;
};

/// A steady clock as now_s(), and a number that is the same for all processes that read the same one.
struct SteadyClock {
  double (*now_s)() = nullptr;
  int64_t identity = 0;

  /// That of this system: processes share it from one boot to the next, within a time namespace.
  static SteadyClock of_system();
};

/// 0 for ranks that share rank 0's clock. The others exchange messages with rank 0 and use the exchange with
/// the shortest round trip: the other clock was read at some moment of it, so its middle is the estimate and
/// half of it the error (Cristian 1989). Collective.
ClockOffset estimate_clock_offset(comm::Communicator& group,
                                  const SteadyClock& clock = SteadyClock::of_system());

}  // namespace lockstep::train
