#include "lockstep/launch/step_board.h"

#include <algorithm>
#include <random>
#include <sstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/host_name.h"

namespace lockstep::launch {
namespace {

constexpr size_t kHeadBytes = 4096;

size_t board_bytes(int ranks) {
  return kHeadBytes + static_cast<size_t>(ranks) * sizeof(StepTimes);
}

uint64_t new_mark() {
  std::random_device random;
  return (uint64_t{random()} << 32) | random();
}

}  // namespace

static_assert(std::atomic<double>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free,
              "processes cannot share the lock of an atomic");

/// Distinguishes rank 0's board from memory that another process may have under the same number.
struct StepBoard::Head {
  std::atomic<uint64_t> mark;
};

std::vector<double> StepTimes::read() const {
  const uint64_t count = std::min<uint64_t>(count_.load(std::memory_order_acquire), kMost);
  std::vector<double> step_s(count);
  for (size_t i = 0; i < count; ++i) step_s[i] = step_s_[i].load(std::memory_order_relaxed);
  return step_s;
}

void StepBoard::Unmap::operator()(void* memory) const {
  ::munmap(memory, bytes);
}

StepBoard::StepBoard(int fd, int ranks) : fd_(fd), ranks_(ranks) {
  if (!fd_ || ranks == 0) return;
  const size_t bytes = board_bytes(ranks);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (memory != MAP_FAILED) memory_ = {memory, Unmap{bytes}};
}

StepBoard StepBoard::make(int ranks) {
  const int fd = ::memfd_create("lockstep-steps", MFD_CLOEXEC);
  if (fd >= 0 && ::ftruncate(fd, static_cast<off_t>(board_bytes(ranks))) != 0) ranks = 0;
  StepBoard board(fd, ranks);
  if (ranks == 0 || !board.memory_) return {};
  // Pages of a new file hold zeros, as new StepTimes do.
  const uint64_t mark = new_mark();
  board.head().mark.store(mark);
  board.address_ = fmt::format("{} {} {} {}", host_name(), ::getpid(), fd, mark);
  return board;
}

StepBoard StepBoard::open(const std::string& address, int ranks) {
  std::istringstream parts(address);
  std::string host;
  int64_t pid = 0, descriptor = -1;
  uint64_t mark = 0;
  if (!(parts >> host >> pid >> descriptor >> mark) || host != host_name()) return {};
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, descriptor);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  struct ::stat facts {};
  const bool fits = fd >= 0 && ::fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) &&
                    facts.st_size == static_cast<off_t>(board_bytes(ranks));
  StepBoard board(fd, fits ? ranks : 0);
  // Containers on one host may each have a process of that number.
  if (!fits || !board.memory_ || board.head().mark.load() != mark) return {};
  return board;
}

StepBoard::Head& StepBoard::head() const {
  return *static_cast<Head*>(memory_.get());
}

StepTimes& StepBoard::times(int rank) const {
  auto* const places = reinterpret_cast<StepTimes*>(static_cast<std::byte*>(memory_.get()) + kHeadBytes);
  return places[rank];
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
