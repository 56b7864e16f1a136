#pragma once

#include <functional>
#include <optional>
#include <span>

#include "lockstep/collectives/record.h"
#include "lockstep/comm/communicator.h"

namespace lockstep::collectives {

struct Pacing {
  /// Iterations before those that count; one at least.
  int warmup = 5;
  /// Empty: as many as take `min_time_s`, from 10 to 1000.
  std::optional<int> iterations;
  double min_time_s = 0.5;
  /// Compare all results of one iteration before and one after those that count.
  bool check = true;
  /// Threads of a rank that compute, where the row asks for it.
  int compute_threads = 1;
};

/// Adjusts bytes and count of a row to whole elements, one per part at least, and sets what follows from its
/// collective. Throws ConfigError for an unknown collective, type or place, and for send_recv of one rank.
void settle(Row& row);

/// Bytes that the buffers of a row take on one rank.
int64_t buffer_bytes(const Row& row);

/// Measures a settled row: iteration_s, wrong and phi_c are filled in on rank 0. Ranks meet in a barrier
/// before every iteration, and its time is the longest that a rank took from there on. `lanes`: communicators
/// of the same ranks, at_a_time of them or more. `finished` is called with the number of iterations.
/// Collective over `lanes`. Throws CommError and its kin.
void measure_row(Row& row, std::span<comm::Communicator* const> lanes, const Pacing& pacing,
                 const std::function<void(int64_t)>& finished);

}  // namespace lockstep::collectives
