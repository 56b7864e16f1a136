#pragma once

#include <vector>

#include "lockstep/replica/flat_memory.h"

namespace lockstep::strategies {

/// Which gradients horovod sends as one: whole tensors that lie next to each other, up to a number of bytes;
/// a larger tensor goes alone. The same on all ranks that are told the same. Must not outlive the memory.
class Fusion {
 public:
  /// `fixed`: packs are made beforehand, and one is sent when all of it was told; without it, whatever was
  /// told together is packed.
  Fusion(const replica::FlatMemory& memory, int64_t cap_bytes, bool fixed);

  /// What can be sent now that these are ready everywhere.
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
