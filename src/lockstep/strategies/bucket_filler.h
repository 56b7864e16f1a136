#pragma once

#include <functional>
#include <vector>

#include "lockstep/replica/flat_memory.h"
#include "lockstep/strategies/bucket_plan.h"
#include "lockstep/strategies/flat_gradients.h"

namespace lockstep::strategies {

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
  void tell_full_buckets();

  bool overlap_;
  OnFull on_full_;
  std::vector<Bucket> buckets_;
  /// The buckets of each parameter.
  std::vector<std::vector<size_t>> buckets_of_;
  /// Number of gradients that each bucket is waiting for.
  std::vector<size_t> missing_;
  /// Number of buckets reported in this step.
  size_t told_ = 0;
  std::vector<size_t> ready_order_;
  FlatGradients gradients_;
};

}  // namespace lockstep::strategies
