#include "result_keeper.h"

#include <fmt/format.h>
#include <unistd.h>

#include "lockstep/base/file.h"
#include "lockstep/results/files/csv.h"
#include "lockstep/results/files/record_json.h"
#include "lockstep/results/tables/notices.h"

#include "console.h"
#include "output_files.h"

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

namespace {

/// Gives a record that an earlier run left at `partial` a name that nothing has.
void set_aside(const fs::path& partial) {
  std::error_code failed;
  if (!fs::exists(partial, failed)) return;
  fs::path aside = partial;
  aside += ".old";
  for (int number = 2; fs::exists(aside, failed); ++number)
    aside.replace_extension(fmt::format(".old{}", number));
  fs::rename(partial, aside, failed);
  if (failed) throw Error(fmt::format("cannot rename '{}': {}", partial.string(), failed.message()));
  print_note(fmt::format("an earlier run left '{}'; it is '{}' now", partial.string(), aside.string()));
}

/// Marks a record, and the row that was under way, with what ended them.
void mark_incomplete(results::RunRecord& record, const std::string& reason) {
  record.incomplete = reason;
  for (results::Run& run : record.runs) {
    if (run.unfinished == results::kNotEnded) run.unfinished = reason;
  }
}

}  // namespace

ResultKeeper::ResultKeeper(const ResultFiles& files) : file_(files.record_path, files.place), files_(files) {}

fs::path ResultKeeper::prepare() {
  fs::path place = results::PartialFile::place_for(files_.record_path);
  // Beside a device there is no room for a file.
  if (place.empty()) place = temporary_record_path(std::to_string(::getpid()));
  if (keeps_privately()) {
    make_private_folder(place.parent_path());
  } else {
    set_aside(results::PartialFile::beside(files_.record_path));
  }
  return place;
}

bool ResultKeeper::keeps_privately() const {
  return files_.json_path.empty() || results::PartialFile::place_for(files_.record_path).empty();
}

void ResultKeeper::finish(const results::RunRecord& record) {
  // The next launch reads the record and adds itself; tables of all launches are printed once, at the end.
  if (!files_.last_launch) {
    file_.update(record);
    return;
  }
  // The files first: standard output may be full.
  if (!files_.json_path.empty()) file_.finish(record);
  if (keeps_privately()) drop_temporary();
  if (!files_.csv_path.empty()) write_file_atomically(files_.csv_path, results::to_csv(record));
  print_record(record, files_.how, /*with_header=*/false);
}

void ResultKeeper::finish_incomplete(const std::string& reason) {
  std::error_code ignored;
  if (files_.place.empty() || !fs::is_regular_file(files_.place, ignored) ||
      fs::file_size(files_.place, ignored) == 0) {
    print_note("nothing was measured yet");
    if (keeps_privately()) drop_temporary();
    return;
  }
  results::RunRecord record = results::read_record(files_.place);
  mark_incomplete(record, reason);
  keeps_privately() ? drop_temporary() : file_.update(record);
  const bool older_csv = !files_.csv_path.empty() && holds_something(files_.csv_path);
  if (!files_.csv_path.empty() && !older_csv) write_file_atomically(files_.csv_path, results::to_csv(record));
  print_record(record, files_.how, /*with_header=*/false);
  if (!keeps_privately()) tell_where();
  if (older_csv) print_note(fmt::format("{} is still that of an earlier run", files_.csv_path));
}

void ResultKeeper::tell_where() const {
  std::string line = fmt::format("what was measured is in {}, marked incomplete", files_.place.string());
  if (files_.place != files_.record_path)
    line += fmt::format("; {} is still that of an earlier run", files_.json_path);
  print_note(line);
}

void ResultKeeper::drop_temporary() {
  if (files_.place.empty()) return;
  std::error_code ignored;
  fs::remove(files_.place, ignored);
  // Its own folder, which stays while it holds anything else.
  fs::remove(files_.place.parent_path(), ignored);
}

fs::path temporary_record_path(const std::string& job) {
  return temporary_path(fmt::format("lockstep-record-{}-{}", ::geteuid(), job)) / "result.json";
}

}  // namespace lockstep::cli
