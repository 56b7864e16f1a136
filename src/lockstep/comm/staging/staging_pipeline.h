#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "lockstep/comm/staging/copy_engine.h"
#include "lockstep/comm/types.h"

namespace lockstep::comm {

/// A collective on device memory, seen as tables of elements: a piece of it is a range of columns of all
/// rows.
struct StagedTables {
  Buffer input;
  Buffer output;
  size_t input_rows = 1;
  size_t output_rows = 1;
  /// Elements in a row of either.
  size_t columns = 0;
  /// The input is the output, and so in host memory.
  bool in_place = false;
  /// Whether this rank's input is read at all, and its output wanted.
  bool reads_input = true;
  bool wants_output = true;
};

/// Carries out collectives on device memory by way of host memory, in pieces: while one is with the other
/// ranks, the next comes out of the device and the one before goes back in. Used by one thread at a time.
class StagingPipeline {
 public:
  /// The collective on host memory; blocks until it is done.
  using HostCall = std::function<void(const Buffer& input, const Buffer& output)>;

  /// `piece_bytes`: host memory that one piece may take, where a row allows; three pieces are on their way.
  StagingPipeline(std::shared_ptr<CopyEngine> engine, size_t piece_bytes);

  /// Blocks until the output is in the device's memory. Nothing is read before `after`, nor written. When it
  /// throws, no copy of it reads or writes the tables any more.
  void run(const StagedTables& tables, const std::vector<CopyEngine::MarkPtr>& after, const HostCall& call);

 private:
  struct Slot {
    std::shared_ptr<std::byte> memory;
    size_t bytes = 0;
    /// When the piece that is to come here has come out of the device.
    CopyEngine::MarkPtr filled;
    /// When the piece that was here last is back in the device.
    CopyEngine::MarkPtr emptied;
  };
  static constexpr size_t kSlots = 3;

  Slot& free_slot(size_t piece, size_t bytes);
  void run_pieces(const StagedTables& tables, const HostCall& call);
  void wait_for(CopyEngine::MarkPtr& mark);
  void wait_for_copies();

  const std::shared_ptr<CopyEngine> engine_;
  const size_t piece_bytes_;
  std::array<Slot, kSlots> slots_;
};

}  // namespace lockstep::comm
