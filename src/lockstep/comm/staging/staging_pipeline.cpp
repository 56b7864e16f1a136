#include "lockstep/comm/staging/staging_pipeline.h"

#include <algorithm>
#include <utility>

namespace lockstep::comm {
namespace {

using Lane = CopyEngine::Lane;

/// Columns of one piece. Depends on sizes only, which all ranks share, so all cut alike.
size_t columns_per_piece(const StagedTables& tables, size_t piece_bytes) {
  constexpr size_t kAligned = 64;
  const size_t rows = tables.in_place ? tables.input_rows : tables.input_rows + tables.output_rows;
  const size_t columns = piece_bytes / (rows * element_bytes(tables.input.dtype));
  if (columns >= kAligned) return columns / kAligned * kAligned;
  return std::max<size_t>(columns, 1);
}

char* at(const Buffer& buffer, size_t element) {
  return static_cast<char*>(buffer.data) + element * element_bytes(buffer.dtype);
}

}  // namespace

StagingPipeline::StagingPipeline(std::shared_ptr<CopyEngine> engine, size_t piece_bytes)
    : engine_(std::move(engine)), piece_bytes_(piece_bytes) {
  for (Slot& slot : slots_) {
    slot.memory = engine_->host_memory(piece_bytes_);
    slot.bytes = piece_bytes_;
  }
}

StagingPipeline::Slot& StagingPipeline::free_slot(size_t piece, size_t bytes) {
  Slot& slot = slots_[piece % kSlots];
  wait_for(slot.emptied);
  if (slot.bytes < bytes) {
    slot.memory = engine_->host_memory(bytes);
    slot.bytes = bytes;
  }
  return slot;
}

void StagingPipeline::run(const StagedTables& tables, const std::vector<CopyEngine::MarkPtr>& after,
                          const HostCall& call) {
  for (const CopyEngine::MarkPtr& mark : after) {
    engine_->hold_lane(Lane::kOut, *mark);
    engine_->hold_lane(Lane::kIn, *mark);
  }
  try {
    run_pieces(tables, call);
  } catch (...) {
    // The owner of the tables may free them as soon as it catches this.
    wait_for_copies();
    throw;
  }
  wait_for_copies();
}

void StagingPipeline::run_pieces(const StagedTables& tables, const HostCall& call) {
  const DType dtype = tables.input.dtype;
  const size_t width = element_bytes(dtype);
  const size_t pitch = tables.columns * width;
  const size_t step = std::min(columns_per_piece(tables, piece_bytes_), std::max<size_t>(tables.columns, 1));
  const size_t pieces = (tables.columns + step - 1) / step;
  const size_t output_offset = tables.in_place ? 0 : tables.input_rows * step * width;
  const size_t slot_bytes =
      output_offset + (tables.in_place ? tables.input_rows : tables.output_rows) * step * width;
  const auto columns_of = [&](size_t piece) { return std::min(step, tables.columns - piece * step); };

  const auto start_out = [&](size_t piece) {
    Slot& slot = free_slot(piece, slot_bytes);
    if (!tables.reads_input) return;
    const size_t row_bytes = columns_of(piece) * width;
    engine_->copy(Lane::kOut, slot.memory.get(), row_bytes, at(tables.input, piece * step), pitch, row_bytes,
                  tables.input_rows);
    slot.filled = engine_->mark_lane(Lane::kOut);
  };

  // Piece i + 1 leaves the device before piece i is waited for, so copies overlap the exchange:
  //
  //   out lane   out 0 | out 1 | out 2 | ...
  //   host               call 0 | call 1 | ...
  //   in lane                     in 0  | in 1 | ...
  //
  // A slot is reused after kSlots pieces, once its last piece is back in the device (free_slot).
  if (pieces > 0) start_out(0);
  for (size_t piece = 0; piece < pieces; ++piece) {
    if (piece + 1 < pieces) start_out(piece + 1);
    Slot& slot = slots_[piece % kSlots];
    wait_for(slot.filled);
    const size_t columns = columns_of(piece);
    const Buffer input{slot.memory.get(), tables.input_rows * columns, dtype};
    const Buffer output{slot.memory.get() + output_offset, tables.output_rows * columns, dtype};
    call(input, output);
    if (!tables.wants_output) continue;
    engine_->copy(Lane::kIn, at(tables.output, piece * step), pitch, output.data, columns * width,
                  columns * width, tables.output_rows);
    slot.emptied = engine_->mark_lane(Lane::kIn);
  }
}

void StagingPipeline::wait_for(CopyEngine::MarkPtr& mark) {
  if (mark) engine_->wait(*std::exchange(mark, nullptr));
}

void StagingPipeline::wait_for_copies() {
  for (Slot& slot : slots_) {
    wait_for(slot.filled);
    wait_for(slot.emptied);
  }
}

}  // namespace lockstep::comm
