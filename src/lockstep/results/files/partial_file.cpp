#include "lockstep/results/files/partial_file.h"

#include <system_error>

#include "lockstep/base/file.h"
#include "lockstep/results/files/record_json.h"

namespace lockstep::results {
namespace fs = std::filesystem;

fs::path PartialFile::place_for(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return path;
  if (!fs::is_regular_file(path, ignored)) return {};
  // mktemp leaves an empty file.
  return fs::file_size(path, ignored) == 0 ? path : beside(path);
}

fs::path PartialFile::beside(const fs::path& path) {
  fs::path partial = path;
  partial += ".partial";
  return partial;
}

PartialFile::PartialFile(fs::path path, fs::path place) : path_(std::move(path)), place_(std::move(place)) {}

void PartialFile::update(const RunRecord& record) const {
  if (place_.empty()) return;
  if (!record.incomplete.empty()) {
    write_file_atomically(place_, to_json(record));
    return;
  }
  RunRecord unfinished = record;
  unfinished.incomplete = kNotEnded;
  write_file_atomically(place_, to_json(unfinished));
}

void PartialFile::finish(const RunRecord& record) const {
  write_file_atomically(path_, to_json(record));
  std::error_code ignored;
  if (!place_.empty() && place_ != path_) fs::remove(place_, ignored);
}

}  // namespace lockstep::results
