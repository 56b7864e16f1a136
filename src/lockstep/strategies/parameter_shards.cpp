#include "lockstep/strategies/parameter_shards.h"

#include <algorithm>
#include <iterator>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

namespace lockstep::strategies {

std::vector<int> assign_owners(const std::vector<int64_t>& bytes, int ranks) {
  std::vector<int64_t> loads(static_cast<size_t>(ranks), 0);
  std::vector<int> owners;
  for (const int64_t tensor : bytes) {
    const auto least = std::ranges::min_element(loads);
    *least += tensor;
    owners.push_back(static_cast<int>(least - loads.begin()));
  }
  return owners;
}

std::vector<int> choose_owners(const StrategyContext& context) {
  std::vector<int64_t> bytes;
  for (const at::Tensor& tensor : context.parameters.tensors()) {
    bytes.push_back(static_cast<int64_t>(tensor.nbytes()));
  }
  const bool shared_out = context.options.parameter_owners == ParameterOwners::kSharded;
  return assign_owners(bytes, shared_out ? context.communicator->size() : 1);
}

std::vector<size_t> order_by_owner(const std::vector<int>& owners) {
  std::vector<size_t> order = reverse_order(owners.size());
  std::ranges::stable_sort(order, {}, [&](size_t parameter) { return owners[parameter]; });
  return order;
}

replica::Range owned_range(const replica::FlatMemory& memory, const std::vector<int>& owners, int rank) {
  replica::Range range{memory.count(), 0};
  for (size_t i = 0; i < owners.size(); ++i) {
    if (owners[i] != rank) continue;
    range.begin = std::min(range.begin, memory.range_of(i).begin);
    range.end = std::max(range.end, memory.range_of(i).end);
  }
  return range.end == 0 ? replica::Range{} : range;
}

int owner_of(const Bucket& bucket, const std::vector<int>& owners) {
  return owners[bucket.parameters.front()];
}

std::vector<Bucket> plan_owned_buckets(const replica::FlatMemory& memory, const std::vector<int>& owners,
                                       int ranks, int64_t cap_bytes) {
  std::vector<Bucket> buckets;
  for (int rank = 0; rank < ranks; ++rank) {
    std::ranges::move(plan_buckets(memory, cap_bytes, {.within = owned_range(memory, owners, rank)}),
                      std::back_inserter(buckets));
  }
  std::ranges::stable_sort(buckets, std::ranges::greater{},
                           [](const Bucket& bucket) { return std::ranges::min(bucket.parameters); });
  return buckets;
}

namespace {

at::Tensor part_of(const at::Tensor& flat, replica::Range range) {
  return flat.slice(0, range.begin, range.end);
}

}  // namespace

HostShard::HostShard(const replica::FlatMemory& memory, replica::Range owned,
                     replica::Accelerator& accelerator)
    : memory_(memory),
      owned_(owned),
      accelerator_(accelerator),
      values_(accelerator.pinned({owned.count()}, at::kFloat)),
      gradients_(accelerator.pinned({owned.count()}, at::kFloat)),
      momenta_(at::zeros({owned.count()}, at::kFloat)) {
  fetch_values();
}

void HostShard::take_gradients(replica::Range range) {
  const at::NoGradGuard no_grad;
  part_of(gradients_, within(range)).copy_(memory_.gradients(range), /*non_blocking=*/true);
  taken_.push_back({range, accelerator_.mark()});
}

void HostShard::apply(const replica::SgdOptions& options, bool first_step) {
  const at::NoGradGuard no_grad;
  for (const Taken& taken : taken_) {
    // The stream has copied these gradients, so its earlier copy from `values_` is complete as well, and they
    // may change.
    accelerator_.wait(*taken.copied);
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
