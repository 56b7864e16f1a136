#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/store.h"

namespace lockstep::train {

/// Longer than any row; the watch notices a rank that dies meanwhile.
constexpr std::chrono::duration<double> kUntilRowEnds{30.0 * 24 * 3600};

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

  /// The place where ranks wait for work that exceeds a communicator's time limit, and the prefix of keys
  /// that only this group uses. Null: ranks wait in a collective, as in tests.
  comm::Store* store = nullptr;
  std::string keys;

  /// This rank's number.
  int rank() const { return control == nullptr ? 0 : control->rank(); }

  /// Collective. Does `work` on rank 0 while the others sleep, however long it takes. `name`: another one
  /// each time.
  void on_rank_0_alone(const std::string& name, const std::function<void()>& work) const {
    if (rank() == 0) work();
    if (store == nullptr) return;
    if (rank() == 0) {
      store->set(keys + name, "done");
    } else {
      store->get(keys + name, kUntilRowEnds);
    }
  }
};

}  // namespace lockstep::train
