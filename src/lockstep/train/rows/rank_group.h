#pragma once

#include "lockstep/comm/communicator.h"

namespace lockstep::train {

/// The ranks of a row, as they speak of what lies in host memory and of what lies on their devices. Both have
/// the same ranks, numbered alike. One object, but for a backend that takes a GPU's memory only (nccl): then
/// two, whose operations do not meet. Both null for one rank that has nobody to speak to. Owns neither.
struct RankGroup {
  RankGroup() = default;
  /// One that carries everything, or null. Not explicit: nearly all do.
  RankGroup(comm::Communicator* both) : control(both), data(both) {}
  RankGroup(comm::Communicator* host, comm::Communicator* device) : control(host), data(device) {}

  /// Host memory: barriers, agreement, samples brought together. Every backend of one has message_tags.
  comm::Communicator* control = nullptr;
  /// What a strategy sends: memory of the row's device, and of the host as well where it is `control`.
  comm::Communicator* data = nullptr;

  /// This rank's number.
  int rank() const { return control == nullptr ? 0 : control->rank(); }
};

}  // namespace lockstep::train
