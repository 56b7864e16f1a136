#include "lockstep/strategies/parameter_shards.h"

#include <algorithm>
#include <iterator>

#include "lockstep/strategies/buckets.h"

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

}  // namespace lockstep::strategies
