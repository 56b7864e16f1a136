#pragma once

#include "lockstep/replica/accelerator.h"

namespace lockstep::train {

/// A moment of a step: on the CPU what the host's clock said, on a GPU a mark in its stream, whose time is
/// known once the GPU has come to it.
struct Instant {
  double at_s = 0;
  replica::Accelerator::MarkPtr mark;
};

/// When things happen on a replica's device, in seconds on the host's steady clock. Stamping never blocks.
/// Used by one thread, but for now().
class StepClock {
 public:
  /// `accelerator` outlives this; null: the CPU.
  explicit StepClock(replica::Accelerator* accelerator) : accelerator_(accelerator) {}

  /// Waits until the device has done all that it was given, and sets its clock by the host's; before the
  /// first instant, and between steps. Returns the time.
  double synchronize();

  Instant now() const;

  /// Blocks until the device has come there.
  double wait_for(const Instant& instant) const;
  /// Of an instant that the device has come to: at most some seconds from where its clock was set.
  double seconds(const Instant& instant) const;

  /// Counts from here on, an instant that the device has come to. A GPU tells how far apart two marks are,
  /// the less exactly the farther.
  void set_by(const Instant& instant);

 private:
  replica::Accelerator* accelerator_;
  /// What the GPU's marks are counted from.
  Instant origin_;
};

}  // namespace lockstep::train
