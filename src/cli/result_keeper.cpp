#include "result_keeper.h"

#include <fmt/format.h>
#include <unistd.h>

#include "lockstep/base/file.h"
#include "lockstep/results/csv.h"
#include "lockstep/results/json_reader.h"
#include "lockstep/results/text.h"

#include "console.h"

namespace lockstep::cli {
namespace fs = std::filesystem;

ResultKeeper::ResultKeeper(fs::path record_path, std::string json_path, std::string csv_path)
    : file_(std::move(record_path)), json_path_(std::move(json_path)), csv_path_(std::move(csv_path)) {}

void ResultKeeper::row_finished(const results::RunRecord& record) {
  file_.update(record);
}

void ResultKeeper::finish(const results::RunRecord& record) {
  print_result("\n" + results::ddp_tables(record) + "\n" + results::scaling_tables(record));
  const std::string closing = results::closing_text(record);
  if (!closing.empty()) print_result("\n" + closing);
  write_files(record);
}

void ResultKeeper::finish_incomplete(const std::string& reason) {
  const fs::path partial = file_.partial_path();
  std::error_code ignored;
  if (partial.empty() || !fs::exists(partial, ignored)) {
    print_note("nothing was measured yet");
    return;
  }
  results::RunRecord record = results::read_record(partial);
  record.incomplete = reason;
  finish(record);
  if (!json_path_.empty())
    print_note(fmt::format("what was measured is in {}, marked incomplete", json_path_));
}

void ResultKeeper::write_files(const results::RunRecord& record) {
  if (json_path_.empty()) {
    drop_partial();
  } else {
    file_.finish(record);
  }
  if (!csv_path_.empty()) write_file_atomically(csv_path_, results::to_csv(record));
}

void ResultKeeper::drop_partial() {
  std::error_code ignored;
  if (!file_.partial_path().empty()) fs::remove(file_.partial_path(), ignored);
}

fs::path temporary_record_path(const std::string& job) {
  return fs::temp_directory_path() / fmt::format("lockstep-{}-{}.json", ::getuid(), job);
}

}  // namespace lockstep::cli
