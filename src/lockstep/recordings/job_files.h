#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "lockstep/recordings/recording.h"

namespace lockstep::recordings {

/// One rank of the job, as far as it is known.
struct Member {
  /// -1: not known.
  int rank = -1;
  std::optional<RankFile> file;
  /// Empty: there is none.
  std::filesystem::path trace;
  /// The trace in an archive; empty: it is a file of its own.
  std::string inside = {};
  /// Earlier windows of the same process, which are left out.
  int earlier_windows = 0;

  /// Of its trace.
  std::filesystem::path name() const { return inside.empty() ? trace : trace / inside; }
};

/// The number behind "rank" or "worker" in a file's name: "rank-3.json", "host_rank3.pt.trace.json"; -1:
/// none.
int rank_in_name(const std::filesystem::path& path);

/// The ranks whose files `paths` name: traces, files of a recording, and folders and archives (tar, zip) of
/// either. A folder without any may hold one that has them, as TensorBoard's do. Throws Error for what cannot
/// be read, and for a folder or an archive without any.
std::vector<Member> members_of(const std::vector<std::filesystem::path>& paths);

}  // namespace lockstep::recordings
