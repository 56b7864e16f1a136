#include "result_keeper.h"

#include <fmt/format.h>
#include <unistd.h>

#include "lockstep/base/file.h"
#include "lockstep/results/files/csv.h"
#include "lockstep/results/files/record_json.h"
#include "lockstep/results/tables/notices.h"

#include "console.h"

namespace lockstep::cli {
namespace fs = std::filesystem;

void print_header(const results::RunRecord& record, const results::RenderOptions& how) {
  print_result(results::to_text(results::Preformatted{results::header_text(record)}, how.form()));
}

void print_record(const results::RunRecord& record, const results::RenderOptions& how, bool with_header) {
  if (with_header) print_header(record, how);
  print_result("\n" + results::render(record, how));
  const std::string closing = results::closing_text(record);
  if (!closing.empty()) print_result("\n" + results::to_text(results::Preformatted{closing}, how.form()));
}

ResultKeeper::ResultKeeper(const ResultFiles& files) : file_(files.record_path), files_(files) {}

void ResultKeeper::prepare() {
  if (files_.json_path.empty()) make_private_folder(file_.path().parent_path());
  std::error_code failed;
  const fs::path& partial = file_.partial_path();
  if (files_.continues || partial.empty() || !fs::exists(partial, failed)) return;
  fs::path aside = partial;
  aside += ".old";
  fs::rename(partial, aside, failed);
  if (failed) throw Error(fmt::format("cannot rename '{}': {}", partial.string(), failed.message()));
  print_note(fmt::format("an earlier run left '{}'; it is '{}' now", partial.string(), aside.string()));
}

void ResultKeeper::row_finished(const results::RunRecord& record) {
  // A whole record each time, so that whatever survives can print it.
  file_.update(record);
}

void ResultKeeper::finish(const results::RunRecord& record) {
  // The next launch reads the record and adds itself; tables of all launches are printed once, at the end.
  if (!files_.last_launch) {
    file_.finish(record);
    return;
  }
  // The files first: standard output may be full.
  write_files(record);
  print_record(record, files_.how, /*with_header=*/false);
}

void ResultKeeper::finish_incomplete(const std::string& reason) {
  // Rows of this launch are in the partial file. Without one the launch died before its first row, and the
  // record holds the launches before it, if there were any.
  fs::path kept = file_.partial_path();
  std::error_code ignored;
  if (files_.continues && !fs::exists(kept, ignored)) kept = file_.path();
  if (kept.empty() || !fs::is_regular_file(kept, ignored)) {
    print_note("nothing was measured yet");
    if (files_.json_path.empty()) drop_temporary();
    return;
  }
  results::RunRecord record = results::read_record(kept);
  record.incomplete = reason;
  write_files(record);
  print_record(record, files_.how, /*with_header=*/false);
  if (!files_.json_path.empty())
    print_note(fmt::format("what was measured is in {}, marked incomplete", files_.json_path));
}

void ResultKeeper::write_files(const results::RunRecord& record) {
  if (files_.json_path.empty()) {
    drop_temporary();
  } else {
    file_.finish(record);
  }
  if (!files_.csv_path.empty()) write_file_atomically(files_.csv_path, results::to_csv(record));
}

void ResultKeeper::drop_temporary() {
  std::error_code ignored;
  if (fs::is_regular_file(file_.path(), ignored)) fs::remove(file_.path(), ignored);
  if (!file_.partial_path().empty()) fs::remove(file_.partial_path(), ignored);
  // Its own folder, which stays while it holds a record that was set aside.
  fs::remove(file_.path().parent_path(), ignored);
}

fs::path temporary_record_path(const std::string& job) {
  return temporary_path(fmt::format("lockstep-record-{}-{}", ::geteuid(), job)) / "result.json";
}

}  // namespace lockstep::cli
