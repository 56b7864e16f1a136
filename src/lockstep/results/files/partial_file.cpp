#include "lockstep/results/files/partial_file.h"

#include <system_error>

#include "lockstep/base/file.h"
#include "lockstep/results/files/record_json.h"

namespace lockstep::results {
namespace fs = std::filesystem;

PartialFile::PartialFile(fs::path path) : path_(std::move(path)) {
  std::error_code ignored;
  // Beside a device or a pipe (/dev/stdout) there is no place for another file.
  if (fs::exists(path_, ignored) && !fs::is_regular_file(path_, ignored)) return;
  partial_path_ = path_;
  partial_path_ += ".partial";
}

void PartialFile::update(const RunRecord& record) {
  if (partial_path_.empty()) return;
  if (!record.incomplete.empty()) {
    write_file_atomically(partial_path_, to_json(record));
    return;
  }
  // Said in advance: a run that is killed has no chance to say it.
  RunRecord unfinished = record;
  unfinished.incomplete = "the run has not ended, or ended without a word";
  write_file_atomically(partial_path_, to_json(unfinished));
}

void PartialFile::finish(const RunRecord& record) {
  write_file_atomically(path_, to_json(record));
  if (partial_path_.empty()) return;
  std::error_code ignored;
  fs::remove(partial_path_, ignored);
}

}  // namespace lockstep::results
