#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/shared_memory.h"
#include "lockstep/comm/operation.h"

namespace lockstep::comm {

/// Memory through which the ranks of one host, threads or processes, pass values to the first of them and
/// back: rings of pieces, whose users sleep while they wait. Between its first and last piece each rank calls
/// its two functions equally often, in the order of the pieces.
///
///     first rank     receive(put pieces of the others)            publish(piece)
///     the others     put(piece)                                   take(piece)
///
/// All throw TimeoutError that names the awaited rank at the deadline, and CommError once any of the ranks
/// has called fail().
class HostMemory {
 public:
  /// Most bytes of a piece, and the pieces that each ring holds.
  static constexpr size_t kPieceBytes = size_t{1} << 20;
  static constexpr uint32_t kSlots = 2;

  /// Makes that of a host's ranks, as the job numbers them, on the first of them. Null where the system has
  /// no such memory.
  static std::unique_ptr<HostMemory> make(std::vector<int> ranks);
  /// The one at `address` of the first rank, for ranks[member], from 1 on. Null if it is out of reach.
  static std::unique_ptr<HostMemory> open(const std::string& address, int member, std::vector<int> ranks);

  /// For open(), under 128 characters.
  const std::string& address() const { return shared_.address; }

  void put(const void* from, size_t bytes, Deadline deadline);
  void take(void* to, size_t bytes, Deadline deadline);

  /// Calls `use` with the next piece of every other rank, in the order of ranks.
  void receive(const std::function<void(const void* piece)>& use, Deadline deadline);
  void publish(const void* from, size_t bytes, Deadline deadline);

  /// Makes every call of every rank fail, now and later. From any thread.
  void fail() noexcept;

 private:
  struct Counter;
  struct Unmap {
    size_t bytes;
    void operator()(void* memory) const;
  };

  HostMemory(SharedMemory shared, int member, std::vector<int> ranks);

  static size_t bytes_of(size_t members);
  int members() const { return static_cast<int>(ranks_.size()); }
  Counter& counter(size_t kind, int member) const;
  void* slot(int ring, uint32_t piece) const;
  /// Until a counter that `member` advances has reached `count`.
  void wait_until(const Counter& counter, uint32_t count, int member, Deadline deadline) const;

  const SharedMemory shared_;
  const int member_;
  const std::vector<int> ranks_;
  /// Null where it could not be mapped.
  std::unique_ptr<void, Unmap> memory_;
  /// Pieces that this rank has passed on, and got.
  uint32_t given_ = 0;
  uint32_t got_ = 0;
};

}  // namespace lockstep::comm
