#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/tcp_socket.h"
#include "lockstep/collectives/record.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/types.h"

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

/// Small whole numbers that repeat along a buffer, others for every rank: what a rank contributes, or their
/// sum over all ranks. Exact in every type, also summed, for up to 255 ranks.
class TestValues {
 public:
  /// `ranks`: of the job. `rank`: -1 for the sum.
  TestValues(comm::DType dtype, int ranks, int rank);

  /// Writes elements [first, first + count) of the pattern.
  void fill(void* data, size_t first, size_t count) const;
  /// Elements that differ from the pattern's [first, first + count).
  int64_t count_wrong(const void* data, size_t first, size_t count) const;

 private:
  /// Calls `visit(place in the buffer, place in tile_, bytes)` for each run of elements of one tile.
  template <typename Visit>
  void in_runs(size_t first, size_t count, Visit visit) const;

  size_t width_;
  /// Elements after which the values repeat.
  size_t period_;
  /// Several periods.
  std::string tile_;
};

/// Bytes per second received from one socket, in 0.2 s, while as much as goes is sent to another; ranks of a
/// ring call it at the same time. The connections are of no use to anything else afterwards. Throws CommError
/// for one that breaks.
double stream(int to, int from);

/// Measures memory: every rank copies at the same time, from one buffer of 32 MiB to another.
/// Collective. The result is the same on all ranks.
Link measure_memory(comm::Communicator& group);

/// Measures sockets: every rank sends to the next one, around the ring, and receives at the same time; ranks
/// 0 and 1 send each other 8 bytes in turn for the latency. `connections`: by rank, none to itself; of no use
/// afterwards. Two ranks or more. Collective. The result is the same on all ranks. Throws CommError for a
/// connection that breaks.
Link measure_sockets(comm::Communicator& group, std::vector<UniqueFd> connections);

}  // namespace lockstep::collectives
