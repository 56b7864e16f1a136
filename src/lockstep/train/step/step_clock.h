#pragma once

#include "lockstep/replica/accelerator.h"

namespace lockstep::train {

/// A moment of a step: on the CPU a reading of the host's clock, on a GPU a mark in its stream, whose time is
/// known once the GPU has reached it.
struct Instant {
  double at_s = 0;
  replica::Accelerator::MarkPtr mark;
};

/// Tells when things happen on a replica's device, in seconds on the host's steady clock. Stamping never
/// blocks. Only now() may be called from several threads.
class StepClock {
 public:
  /// `accelerator` outlives this; null: the CPU.
  explicit StepClock(replica::Accelerator* accelerator) : accelerator_(accelerator) {}

  /// Waits until the device has done all its work, and sets its clock by the host's. Call before the first
  /// instant, and between steps. Returns the time.
  double synchronize();

  Instant now() const;

  /// Blocks until the device has reached the instant. Returns its time.
  double wait_for(const Instant& instant) const;
  /// The time of an instant that the device has reached, at most a few seconds after its clock was set.
  double seconds(const Instant& instant) const;

  /// Counts from this instant on, which the device has reached. A GPU measures the distance of two marks,
  /// less exactly the farther they are apart.
  void set_by(const Instant& instant);

 private:
  replica::Accelerator* accelerator_;
  /// The instant from which the GPU's marks are counted.
  Instant origin_;
};

}  // namespace lockstep::train
