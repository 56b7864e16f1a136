#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/collectives/record.h"

namespace lockstep::collectives {

/// Facts that an imported text may lack.
struct ImportHints {
  /// A name of operations(): only tests of it are read. Empty: from the text, or from the name of the file.
  std::string collective;
  /// Ranks, likewise; 0: from the text.
  int ranks = 0;
  /// Where several are possible; empty: that is an error.
  std::string usual_collective;
};

struct ImportedText {
  std::vector<Row> rows;
  /// Sentences: what was left out, and what was concluded rather than read.
  std::vector<std::string> notes;
};

/// Rows of what nccl-tests (all_reduce_perf and its kin, 2.0 to 2.19) or the OSU micro-benchmarks (5 to 7:
/// the latency of a collective, osu_latency, osu_bw) print, maybe of several tests. nccl-tests' rows are out
/// of place and in place; OSU's sizes of gathers and of all-to-all, which are those of one rank, become those
/// of all. The ratio of the printed bus bandwidth to the algorithm bandwidth, bus_factor(), must be that of
/// the collective and the ranks; where the text does not name them, it tells them if only one fits. Throws
/// Error that says what is missing and how to give it.
ImportedText import_text(std::string_view text, const std::string& name, const ImportHints& hints);

}  // namespace lockstep::collectives
