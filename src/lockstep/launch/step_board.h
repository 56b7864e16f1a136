#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/shared_memory.h"

namespace lockstep::launch {

/// Step times of one rank in the row that it trains, in order. One thread writes; any may read meanwhile, in
/// this process or in another that shares the memory. Adding a step is two stores, because it is part of the
/// measured path; beyond kMost steps, further ones are left out.
class StepTimes {
 public:
  /// 8 MiB of addresses for each rank; memory is taken for the steps that there are.
  static constexpr size_t kMost = (size_t{1} << 20) - 8;

  /// For a new row. A reader at the same time may see the previous row's times, so readers read only during a
  /// row, which begins with a barrier after this.
  void clear() noexcept { count_.store(0, std::memory_order_release); }

  void add(double step_s) noexcept {
    const uint64_t count = count_.load(std::memory_order_relaxed);
    if (count >= kMost) return;
    step_s_[count].store(step_s, std::memory_order_relaxed);
    count_.store(count + 1, std::memory_order_release);
  }

  /// Seconds of every step so far, warm-up included.
  std::vector<double> read() const;

 private:
  friend class StepBoard;

  std::atomic<uint64_t> count_{0};
  /// Whether the rank has found this place.
  std::atomic<uint64_t> taken_{0};
  alignas(64) std::atomic<double> step_s_[kMost];
};

/// Step times of all ranks of a job that are on rank 0's host, in memory that their processes share. Rank 0
/// makes the board, and reads from it the times that every rank measured of an unfinished row, even if the
/// ranks are gone by then. The memory has no name: it is freed with its last process, however that ends.
class StepBoard {
 public:
  /// A board that records nothing.
  StepBoard() = default;

  /// Rank 0's. `ranks`: of the job. Where the system has no memory to share, a board that records nothing.
  static StepBoard make(int ranks);

  /// Another rank's, by the address() that rank 0 sent it. On another host, and wherever rank 0's memory is
  /// out of reach, a board that records nothing.
  static StepBoard open(const std::string& address, int ranks);

  /// For open(). Empty on a board that open() returned or that records nothing.
  const std::string& address() const { return shared_.address; }

  /// The place of a rank, whose step times rank 0 reads from then on; null on a board that records nothing.
  /// Valid as long as the board.
  StepTimes* take(int rank);

  /// [rank][step]: seconds of the first of `ranks` ranks that have taken their places. Ranks behind one that
  /// has not are left out, so that the index is the rank's number.
  std::vector<std::vector<double>> read(int ranks) const;

 private:
  struct Unmap {
    size_t bytes;
    void operator()(void* memory) const;
  };

  static size_t bytes_of(int ranks) { return static_cast<size_t>(ranks) * sizeof(StepTimes); }

  StepBoard(SharedMemory shared, int ranks);
  StepTimes& times(int rank) const;

  SharedMemory shared_;
  /// The places of the ranks.
  std::unique_ptr<void, Unmap> memory_;
  int ranks_ = 0;
};

}  // namespace lockstep::launch
