#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/replica/flat_memory.h"

namespace lockstep::strategies {

/// When gradients are copied to flat memory.
enum class Copying {
  /// Each one when it is ready. On the CPU, some blocks write theirs there themselves
  /// (replica::GradientPlace).
  kEach,
  /// All that are ready, in FlatGradients::fill_places(): one launch for all of a type, one more if they are
  /// scaled, because on a GPU a launch takes longer than the copy of a small tensor. Gradients of narrow
  /// copies are widened on the way.
  kTogether
};

/// kTogether on a GPU.
Copying copying_for(const replica::FlatMemory& memory);

/// Moves gradients from autograd to flat memory during the backward pass, each multiplied by a scale, and
/// reports each one that is final. Sums gradients over the micro-batches of a step. Used by one thread at a
/// time: the training thread, and autograd's during a backward pass.
class FlatGradients {
 public:
  /// Called during the last backward pass of a step. `index`: the parameter's index.
  using OnFinal = std::function<void(size_t index)>;

  FlatGradients(replica::Parameters& parameters, replica::FlatMemory& memory, double scale, Copying copying,
                OnFinal on_final);
  ~FlatGradients();
  FlatGradients(const FlatGradients&) = delete;
  FlatGradients& operator=(const FlatGradients&) = delete;

  void begin_step();
  /// See Strategy::before_backward(). Without a call, a step has one backward pass.
  void begin_backward(bool last);

  /// Copies the gradients reported so far to flat memory. With kEach they are there already.
  void fill_places();

 private:
  using OnGradient = std::function<void(size_t index, const at::Tensor& gradient)>;
  class Hook;

  void gradient_ready(size_t index, const at::Tensor& gradient);
  void assign_places();

  replica::Parameters& parameters_;
  replica::FlatMemory& memory_;
  const Copying copying_;
  /// Parameters whose gradients are written by their blocks.
  std::vector<size_t> placeable_;
  /// Parameters whose gradients come in the type of their narrow copies.
  std::vector<size_t> narrow_;
  double scale_;
  OnFinal on_final_;
  int passes_ = 0;
  bool last_ = true;
  /// Gradients of this backward pass that are not copied yet, with their parameters.
  std::vector<std::pair<size_t, at::Tensor>> waiting_;
  /// Parameters keep their hooks for life; without this, a hook leaves the gradient to autograd.
  std::shared_ptr<OnGradient> on_gradient_;
};

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
  /// Whether the last bucket is small; otherwise it is the rest.
  bool small_last = true;
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
