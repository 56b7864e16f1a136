#pragma once

#include "lockstep/comm/communicator.h"

namespace lockstep::train {

/// The communicators of a row's ranks, for host memory and for memory of their devices. Both have the same
/// ranks, numbered alike. They are one object, except with a backend that takes a GPU's memory only (nccl):
/// then they are two, whose operations do not interfere. Both are null for a row of one rank. Owns neither.
struct RankGroup {
  RankGroup() = default;
  /// One communicator for everything, or null. Implicit, because nearly all backends are of this kind.
  RankGroup(comm::Communicator* both) : control(both), data(both) {}
  RankGroup(comm::Communicator* host, comm::Communicator* device) : control(host), data(device) {}

  /// Host memory: barriers, agreement, samples brought together. Every backend of one has message_tags.
  comm::Communicator* control = nullptr;
  /// Messages of strategies: memory of the row's device, and of the host as well if it is `control`.
  comm::Communicator* data = nullptr;

  /// This rank's number.
  int rank() const { return control == nullptr ? 0 : control->rank(); }
};

}  // namespace lockstep::train
