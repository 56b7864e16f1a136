#include "lockstep/comm/host_memory.h"

#include <atomic>
#include <climits>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

/// Longest sleep before a rank looks for a failure of another one.
constexpr std::chrono::milliseconds kLook{100};

/// Counters of a rank: pieces that it has passed on, and pieces that it has got (the first rank has one such
/// counter for every other rank, in that rank's place).
constexpr size_t kGiven = 0, kGot = 1, kReceived = 2, kKinds = 3;

}  // namespace

/// A count of pieces; it wraps around. Pages of a new file hold zeros.
struct HostMemory::Counter {
  static constexpr size_t kCacheLine = 64;
  alignas(kCacheLine) std::atomic<uint32_t> value;
  static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == sizeof(int));

  void add_one() {
    value.fetch_add(1, std::memory_order_release);
    wake();
  }
  void wake() { ::syscall(SYS_futex, &value, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }
};

void HostMemory::Unmap::operator()(void* memory) const {
  ::munmap(memory, bytes);
}

// Counters come first, kKinds of every rank, then one of failures; then the rings, the first rank's among
// them.
size_t HostMemory::bytes_of(size_t members) {
  return (kKinds * members + 1) * sizeof(Counter) + members * kSlots * kPieceBytes;
}

HostMemory::HostMemory(SharedMemory shared, int member, std::vector<int> ranks)
    : shared_(std::move(shared)), member_(member), ranks_(std::move(ranks)) {
  const size_t bytes = bytes_of(ranks_.size());
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shared_.fd.get(), 0);
  if (memory != MAP_FAILED) memory_ = {memory, Unmap{bytes}};
}

std::unique_ptr<HostMemory> HostMemory::make(std::vector<int> ranks) {
  SharedMemory shared = SharedMemory::make("sums");
  if (::ftruncate(shared.fd.get(), static_cast<off_t>(bytes_of(ranks.size()))) != 0) return nullptr;
  std::unique_ptr<HostMemory> made(new HostMemory(std::move(shared), 0, std::move(ranks)));
  return made->memory_ ? std::move(made) : nullptr;
}

std::unique_ptr<HostMemory> HostMemory::open(const std::string& address, int member, std::vector<int> ranks) {
  UniqueFd fd = open_shared_memory(address);
  struct ::stat facts {};
  if (::fstat(fd.get(), &facts) != 0 || facts.st_size != static_cast<off_t>(bytes_of(ranks.size())))
    return nullptr;
  std::unique_ptr<HostMemory> opened(new HostMemory({std::move(fd), address}, member, std::move(ranks)));
  return opened->memory_ ? std::move(opened) : nullptr;
}

HostMemory::Counter& HostMemory::counter(size_t kind, int member) const {
  return static_cast<Counter*>(memory_.get())[kKinds * static_cast<size_t>(member) + kind];
}

void* HostMemory::slot(int ring, uint32_t piece) const {
  char* const rings = reinterpret_cast<char*>(&counter(1, members()));
  return rings + (static_cast<size_t>(ring) * kSlots + piece % kSlots) * kPieceBytes;
}

void HostMemory::wait_until(const Counter& counter, uint32_t count, int member, Deadline deadline) const {
  const std::atomic<uint32_t>& failures = this->counter(0, members()).value;
  while (true) {
    const uint32_t now = counter.value.load(std::memory_order_acquire);
    if (failures.load() != 0) throw CommError("another rank of this host has failed");
    if (static_cast<int32_t>(now - count) >= 0) return;
    if (Clock::now() >= deadline)
      throw TimeoutError(fmt::format("no answer from rank {}", ranks_[size_t(member)]));
    const ::timespec look{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(kLook).count()};
    ::syscall(SYS_futex, &counter.value, FUTEX_WAIT, now, &look, nullptr, 0);
  }
}

void HostMemory::put(const void* from, size_t bytes, Deadline deadline) {
  wait_until(counter(kReceived, member_), given_ + 1 - kSlots, 0, deadline);
  std::memcpy(slot(member_, given_++), from, bytes);
  counter(kGiven, member_).add_one();
}

void HostMemory::take(void* to, size_t bytes, Deadline deadline) {
  wait_until(counter(kGiven, 0), got_ + 1, 0, deadline);
  std::memcpy(to, slot(0, got_++), bytes);
  counter(kGot, member_).add_one();
}

void HostMemory::receive(const std::function<void(const void* piece)>& use, Deadline deadline) {
  for (int member = 1; member < members(); ++member) {
    wait_until(counter(kGiven, member), got_ + 1, member, deadline);
    use(slot(member, got_));
    counter(kReceived, member).add_one();
  }
  ++got_;
}

void HostMemory::publish(const void* from, size_t bytes, Deadline deadline) {
  if (members() == 1) return;
  for (int member = 1; member < members(); ++member) {
    wait_until(counter(kGot, member), given_ + 1 - kSlots, member, deadline);
  }
  std::memcpy(slot(0, given_++), from, bytes);
  counter(kGiven, 0).add_one();
}

void HostMemory::fail() noexcept {
  counter(0, members()).value.store(1);
  for (int member = 0; member < members(); ++member) {
    for (size_t kind = 0; kind < kKinds; ++kind) counter(kind, member).wake();
  }
}

}  // namespace lockstep::comm
