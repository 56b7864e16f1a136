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
};

/// The number behind "rank" in a file's name: "rank-3.json", "host_rank3.pt.trace.json"; -1: none.
int rank_in_name(const std::filesystem::path& path);

/// The ranks whose files `paths` name: traces, files of a recording, and folders of either. Throws Error for
/// what cannot be read, and for a folder without any.
std::vector<Member> members_of(const std::vector<std::filesystem::path>& paths);

}  // namespace lockstep::recordings
