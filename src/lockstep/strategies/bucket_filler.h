#pragma once

#include <functional>
#include <vector>

#include "lockstep/replica/flat_memory.h"
#include "lockstep/strategies/bucket_plan.h"
#include "lockstep/strategies/flat_gradients.h"

namespace lockstep::strategies {

/// Last registered, first ready: nearly right for every network.
std::vector<size_t> reverse_order(size_t parameters);

/// Brings gradients from the backward pass into flat memory, scaled, and tells which buckets are full, always
/// in the order of the plan, so that every rank can send them as it hears of them. Used by the training
/// thread only; must outlive neither the Parameters nor the FlatMemory.
class BucketFiller {
 public:
  using OnFull = std::function<void(size_t bucket)>;

  /// Every gradient is multiplied by `scale`. `overlap`: on_full is called from the backward pass; else from
  /// finish.
  BucketFiller(replica::Parameters& parameters, replica::FlatMemory& memory, double scale, bool overlap,
               OnFull on_full);

  /// Between steps; `buckets` as the order in which they are to be told.
  void set_plan(std::vector<Bucket> buckets);
  const std::vector<Bucket>& buckets() const { return buckets_; }

  void begin_step();
  /// Before every backward pass of a step. Gradients of those before the last are added up.
  void begin_backward(bool last) { gradients_.begin_backward(last); }
  /// After backward: tells what was not told. Throws Error when a parameter got no gradient.
  void finish();

  /// The parameters of this step in the order in which their gradients became ready.
  const std::vector<size_t>& ready_order() const { return ready_order_; }

 private:
  void gradient_final(size_t index);
  void tell_full_buckets();

  bool overlap_;
  OnFull on_full_;
  std::vector<Bucket> buckets_;
  /// By parameter.
  std::vector<std::vector<size_t>> buckets_of_;
  /// Gradients that each bucket still waits for.
  std::vector<size_t> missing_;
  size_t told_ = 0;
  std::vector<size_t> ready_order_;
  FlatGradients gradients_;
};

}  // namespace lockstep::strategies
