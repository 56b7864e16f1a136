#include "lockstep/strategies/host_shard.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

namespace lockstep::strategies {
namespace {

at::Tensor host_memory(int64_t count, replica::Accelerator* accelerator) {
  return accelerator == nullptr ? at::empty({count}, at::kFloat) : accelerator->pinned({count}, at::kFloat);
}

at::Tensor part_of(const at::Tensor& flat, replica::Range range) {
  return flat.slice(0, range.begin, range.end);
}

}  // namespace

HostShard::HostShard(const replica::FlatMemory& memory, replica::Range owned,
                     replica::Accelerator* accelerator)
    : memory_(memory),
      owned_(owned),
      accelerator_(accelerator),
      values_(host_memory(owned.count(), accelerator)),
      gradients_(host_memory(owned.count(), accelerator)),
      momenta_(at::zeros({owned.count()}, at::kFloat)) {
  fetch_values();
}

void HostShard::take_gradients(replica::Range range) {
  const at::NoGradGuard no_grad;
  part_of(gradients_, within(range)).copy_(memory_.gradients(range), /*non_blocking=*/true);
  taken_.push_back({range, accelerator_ == nullptr ? nullptr : accelerator_->mark()});
}

void HostShard::apply(const replica::SgdOptions& options, bool first_step) {
  const at::NoGradGuard no_grad;
  for (const Taken& taken : taken_) {
    // The stream has copied these gradients, so its earlier copy from `values_` is complete as well, and they
    // may change.
    if (taken.copied) accelerator_->wait(*taken.copied);
    const replica::Range range = within(taken.range);
    const at::Tensor values = part_of(values_, range);
    replica::fused_sgd({values}, {part_of(gradients_, range)}, {part_of(momenta_, range)}, options,
                       first_step);
    memory_.values(taken.range).copy_(values, /*non_blocking=*/true);
  }
  taken_.clear();
}

void HostShard::save(replica::State& state) const {
  state.add("momenta_on_host", momenta_);
}

void HostShard::restore(const replica::State& state) {
  state.copy_to("momenta_on_host", momenta_);
  fetch_values();
}

void HostShard::fetch_values() {
  const at::NoGradGuard no_grad;
  values_.copy_(memory_.values(owned_));
}

}  // namespace lockstep::strategies
