#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/json_codec.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/strategies/strategy.h"

namespace lockstep::train {

/// The values of all ranks, one rank's after the other's, on all ranks; every rank has the same number.
/// Collective.
template <typename T>
std::vector<T> gather_equal(std::vector<T> own, comm::Communicator& group) {
  std::vector<T> all(own.size() * static_cast<size_t>(group.size()));
  group.all_gather(comm::host_buffer(own.data(), own.size()), comm::host_buffer(all.data(), all.size()))
      ->wait();
  return all;
}

/// Whether all ranks have the same hash; the same answer on all of them. Collective.
inline bool same_on_all_ranks(uint64_t hash, comm::Communicator& group) {
  const std::vector<int64_t> all = gather_equal<int64_t>({static_cast<int64_t>(hash)}, group);
  return std::ranges::all_of(all, [&](int64_t other) { return other == all.front(); });
}

/// [rank], on all ranks, which may have different numbers of values. Collective.
template <typename T>
std::vector<std::vector<T>> gather_by_rank(std::vector<T> own, comm::Communicator& group) {
  const std::vector<int64_t> counts = gather_equal<int64_t>({static_cast<int64_t>(own.size())}, group);
  const auto most = static_cast<size_t>(std::ranges::max(counts));
  own.resize(most);
  const std::vector<T> all = gather_equal(std::move(own), group);
  std::vector<std::vector<T>> by_rank;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * most);
    by_rank.emplace_back(begin, begin + counts[rank]);
  }
  return by_rank;
}

/// Every rank's record, in order of rank, on all ranks; only this rank's where `group` is null. T describes
/// itself (base/fields.h), or is a list of such. Collective.
template <typename T>
std::vector<T> gather_records(const T& own, comm::Communicator* group) {
  if (group == nullptr) return {own};
  const std::string bytes = to_bytes(own);
  std::vector<T> all;
  for (const auto& rank : gather_by_rank(std::vector<uint8_t>(bytes.begin(), bytes.end()), *group)) {
    all.push_back(from_bytes<T>(std::string(rank.begin(), rank.end())));
  }
  return all;
}

/// Combines each quantity over all ranks, by its Measured::Over; the same on all of them. `own`: of this
/// rank, over its `steps` steps; every rank has the same names. Collective over `group` unless it is null.
std::vector<strategies::Measured> combine_measured(std::vector<strategies::Measured> own, size_t steps,
                                                   comm::Communicator* group);

}  // namespace lockstep::train
