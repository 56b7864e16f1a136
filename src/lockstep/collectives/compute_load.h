#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep::collectives {

/// Computing beside communication: products of small matrices, and passes over memory that no
/// cache holds, some four fifths and one fifth of the time, as in a training step. The calling thread and
/// `threads` - 1 others, which inherit its processors, compute in blocks of some 30 us.
class ComputeLoad {
 public:
  explicit ComputeLoad(int threads);
  ~ComputeLoad();
  ComputeLoad(const ComputeLoad&) = delete;
  ComputeLoad& operator=(const ComputeLoad&) = delete;

  /// Times a block of the calling thread where nothing communicates.
  void time_alone();

  /// Computes until all works are complete, or have failed. Returns the time on the steady clock of the last
  /// one's completion. `begin_s`: when the first was issued.
  double until_complete(std::span<const comm::WorkPtr> works, double begin_s);

  /// Seconds since forget() in which works were in flight, and those of them in which nothing was computed.
  double busy_s() const { return busy_s_; }
  double lost_s() const { return lost_s_; }
  void forget() { busy_s_ = lost_s_ = 0; }

 private:
  class Blocks;

  std::unique_ptr<Blocks> own_;
  std::atomic<bool> computing_{false};
  std::atomic<bool> ending_{false};
  std::vector<std::thread> others_;
  double alone_s_ = 0;
  double busy_s_ = 0;
  double lost_s_ = 0;
};

}  // namespace lockstep::collectives
