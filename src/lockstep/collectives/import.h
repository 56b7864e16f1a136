#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/collectives/record.h"

namespace lockstep::collectives {

/// Facts that an imported text may lack.
struct ImportHints {
  /// A name of operations(); empty: from the text, or from the name of the file.
  std::string collective;
  /// 0: from the text.
  int ranks = 0;
  /// Where neither says so; empty: that is an error.
  std::string usual_collective;
};

/// Rows of what nccl-tests (all_reduce_perf and its kin, 2.0 to 2.17) or the OSU micro-benchmarks (5 to 7:
/// the latency of a collective, osu_latency, osu_bw) print. nccl-tests' rows are out of place and in place;
/// OSU's sizes of gathers and of all-to-all, which are those of one rank, become those of all. Lines that are
/// neither rows nor heads are skipped. Throws Error that says what is missing and how to give it.
std::vector<Row> import_text(std::string_view text, const std::string& name, const ImportHints& hints);

}  // namespace lockstep::collectives
