#include "lockstep/launch/step_board.h"

#include <algorithm>
#include <utility>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lockstep::launch {
static_assert(std::atomic<double>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free,
              "processes cannot share the lock of an atomic");

std::vector<double> StepTimes::read() const {
  const uint64_t count = std::min<uint64_t>(count_.load(std::memory_order_acquire), kMost);
  std::vector<double> step_s(count);
  for (size_t i = 0; i < count; ++i) step_s[i] = step_s_[i].load(std::memory_order_relaxed);
  return step_s;
}

void StepBoard::Unmap::operator()(void* memory) const {
  ::munmap(memory, bytes);
}

StepBoard::StepBoard(SharedMemory shared, int ranks) : shared_(std::move(shared)), ranks_(ranks) {
  const size_t bytes = bytes_of(ranks);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shared_.fd.get(), 0);
  if (memory != MAP_FAILED) memory_ = {memory, Unmap{bytes}};
}

StepBoard StepBoard::make(int ranks) {
  SharedMemory shared = SharedMemory::make("steps");
  // Pages of a new file hold zeros, as new StepTimes do.
  if (::ftruncate(shared.fd.get(), static_cast<off_t>(bytes_of(ranks))) != 0) return {};
  return {std::move(shared), ranks};
}

StepBoard StepBoard::open(const std::string& address, int ranks) {
  UniqueFd fd = open_shared_memory(address);
  struct ::stat facts {};
  if (::fstat(fd.get(), &facts) != 0 || facts.st_size != static_cast<off_t>(bytes_of(ranks))) return {};
  return {{std::move(fd), ""}, ranks};
}

StepTimes& StepBoard::times(int rank) const {
  return static_cast<StepTimes*>(memory_.get())[rank];
}

StepTimes* StepBoard::take(int rank) {
  if (!memory_ || rank >= ranks_) return nullptr;
  times(rank).taken_.store(1);
  return &times(rank);
}

std::vector<std::vector<double>> StepBoard::read(int ranks) const {
  std::vector<std::vector<double>> by_rank;
  for (int rank = 0; memory_ && rank < std::min(ranks, ranks_); ++rank) {
    if (times(rank).taken_.load() == 0) break;
    by_rank.push_back(times(rank).read());
  }
  return by_rank;
}

}  // namespace lockstep::launch
