#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lockstep/replica/flat_memory.h"
#include "lockstep/strategies/flat_gradients.h"

namespace lockstep::strategies {

/// A range of flat gradient memory that is sent as one message.
struct Bucket {
  replica::Range range;
  /// Parameters that are in it, completely or in part.
  std::vector<size_t> parameters;
};

struct BucketRules {
  /// The range to divide; absent: everything, including the padding.
  std::optional<replica::Range> within;
  /// The size of every bucket is a multiple of this many elements. The range's size must be one as well.
  int64_t multiple_of = 1;
};

/// Divides flat memory into buckets of at most `cap_bytes`, from the front, because the first gradients are
/// ready first:
///
///     | cap_bytes | cap_bytes | ... | the rest | at most 1 MiB |
///
/// A larger tensor is split. The last bucket is small, because no computation is left to overlap with it. No
/// bucket is smaller than `multiple_of`, whatever the cap. An empty range has no buckets.
std::vector<Bucket> plan_buckets(const replica::FlatMemory& memory, int64_t cap_bytes,
                                 const BucketRules& rules = {});

/// The reverse order of registration: a good guess of the order in which gradients become ready.
std::vector<size_t> reverse_order(size_t parameters);

/// Moves scaled gradients from the backward pass to flat memory and reports full buckets, always in the order
/// of the plan, so that every rank may start a collective in the callback. To be used by the training thread
/// only; must not outlive the Parameters and the FlatMemory.
class BucketFiller {
 public:
  using OnFull = std::function<void(size_t bucket)>;

  /// Every gradient is multiplied by `scale`. `overlap`: on_full is called during the backward pass;
  /// otherwise by finish().
  BucketFiller(replica::Parameters& parameters, replica::FlatMemory& memory, double scale, bool overlap,
               OnFull on_full);

  /// Sets the buckets, in the order in which they are to be reported. Call between steps.
  void set_plan(std::vector<Bucket> buckets);
  const std::vector<Bucket>& buckets() const { return buckets_; }

  void begin_step();
  /// Call before every backward pass of a step. Gradients of all but the last one are added up.
  void begin_backward(bool last) { gradients_.begin_backward(last); }
  /// Reports the remaining buckets. Call after backward. Throws Error if a parameter got no gradient.
  void finish();

  /// The parameters of this step in the order in which their gradients became ready.
  const std::vector<size_t>& ready_order() const { return ready_order_; }

 private:
  void gradient_final(size_t index);
  void report_full_buckets();

  bool overlap_;
  OnFull on_full_;
  std::vector<Bucket> buckets_;
  /// The buckets of each parameter.
  std::vector<std::vector<size_t>> buckets_of_;
  /// Number of gradients that each bucket is waiting for.
  std::vector<size_t> missing_;
  /// Number of buckets reported in this step.
  size_t reported_ = 0;
  std::vector<size_t> ready_order_;
  FlatGradients gradients_;
};

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
