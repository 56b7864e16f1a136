#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "lockstep/comm/staging/copy_engine.h"
#include "lockstep/comm/types.h"

namespace lockstep::comm {

/// A collective on device memory, seen as tables of elements: a row per part, and a piece of the collective
/// is a range of columns of all rows.
///
///     input (all_to_all)        columns
///     part for rank 0   [ piece 0 | piece 1 | piece 2 ]
///     part for rank 1   [ piece 0 | piece 1 | piece 2 ]
///     part for rank 2   [ piece 0 | piece 1 | piece 2 ]
///
/// Cut that way, a piece is a smaller collective of the same kind.
struct StagedTables {
  Buffer input;
  Buffer output;
  size_t input_rows = 1;
  size_t output_rows = 1;
  /// Elements in a row of either.
  size_t columns = 0;
  /// The input is the output, in host memory too.
  bool in_place = false;
  /// Whether the collective reads this rank's input, and writes its output.
  bool reads_input = true;
  bool wants_output = true;
};

/// Carries out collectives on device memory through host memory, in pieces: while one is exchanged among the
/// ranks, the next is copied out of the device and the one before back in. Used by one thread at a time.
class StagingPipeline {
 public:
  /// The collective on host memory; blocks until it is done.
  using HostCall = std::function<void(const Buffer& input, const Buffer& output)>;

  /// `piece_bytes`: host memory per piece, more only if a single column needs it; three pieces are in flight.
  /// Allocated here: a GPU may have to finish all of its work before it pins memory.
  StagingPipeline(std::shared_ptr<CopyEngine> engine, size_t piece_bytes);

  /// Blocks until the output is in the device's memory. Neither reads nor writes before the marks in `after`.
  /// Once it has thrown, no copy reads or writes the tables any more.
  void run(const StagedTables& tables, const std::vector<CopyEngine::MarkPtr>& after, const HostCall& call);

 private:
  struct Slot {
    std::shared_ptr<std::byte> memory;
    size_t bytes = 0;
    /// Reached when the piece has been copied out of the device.
    CopyEngine::MarkPtr filled;
    /// Reached when the slot's previous piece is back in the device.
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
