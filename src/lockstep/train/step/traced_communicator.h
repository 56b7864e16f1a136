#pragma once

#include <memory>
#include <vector>

#include "lockstep/comm/forwarding_communicator.h"
#include "lockstep/measure/phases.h"
#include "lockstep/replica/accelerator.h"
#include "lockstep/train/step/step_clock.h"

namespace lockstep::train {

using measure::CollectiveStamp;

/// Forwards to another communicator (owned by the caller, outliving this) and stamps every collective, a
/// barrier as one of no bytes. Its duplicates are lanes of their own, stamped too. Used like any
/// communicator. Collectives in a GPU's streams are stamped there: when the step's stream reached them, and
/// when they were done.
class TracedCommunicator final : public comm::ForwardingCommunicator {
 public:
  explicit TracedCommunicator(comm::Communicator& real);
  ~TracedCommunicator() override;

  /// Stamps on this GPU from now on, where the buffers are; null: on the CPU. Call before duplicating this or
  /// issuing anything to be stamped there.
  void stamp_on(std::shared_ptr<replica::Accelerator> accelerator);

  /// Collectives issued whose stamps were not taken.
  size_t issued() const;
  /// The stamps of the oldest `count` of them, in order. Call when they are complete, on a GPU when it has
  /// reached the end of the step.
  std::vector<CollectiveStamp> take_stamps(size_t count, const StepClock& clock);
  /// Drops all stamps.
  void forget_stamps();

  comm::WorkPtr issue(const comm::Collective& collective) override;
  std::unique_ptr<comm::Communicator> duplicate() override;

 private:
  class Stamps;

  TracedCommunicator(std::unique_ptr<comm::Communicator> real, std::shared_ptr<Stamps> stamps);

  /// Null if the caller owns the real communicator.
  std::unique_ptr<comm::Communicator> owned_;
  /// Shared with the duplicates.
  std::shared_ptr<Stamps> stamps_;
  int lane_;
};

}  // namespace lockstep::train
