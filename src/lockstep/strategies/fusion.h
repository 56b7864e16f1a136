#pragma once

#include <vector>

#include "lockstep/replica/flat_memory.h"

namespace lockstep::strategies {

/// Groups horovod's gradients into packs that are sent as one message: whole tensors that are neighbors in
/// memory, up to a number of bytes; a larger tensor is a pack of its own. Deterministic, so ranks that make
/// the same calls get the same packs. Must not outlive the memory.
class Fusion {
 public:
  /// `fixed`: packs are fixed in advance, and each is returned when all of its tensors are ready. Otherwise
  /// the tensors of one call are packed.
  Fusion(const replica::FlatMemory& memory, int64_t cap_bytes, bool fixed);

  /// Returns the packs that can be sent now that `tensors` are ready on every rank.
  std::vector<replica::Range> packs_of(const std::vector<size_t>& tensors);

 private:
  struct Pack {
    replica::Range range;
    std::vector<size_t> tensors;
  };

  /// `tensors`: in the order of the memory.
  std::vector<Pack> pack(const std::vector<size_t>& tensors) const;

  const replica::FlatMemory& memory_;
  int64_t cap_;
  std::vector<Pack> fixed_;
  std::vector<size_t> pack_of_;
  std::vector<size_t> missing_;
};

}  // namespace lockstep::strategies
