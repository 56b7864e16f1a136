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
  const results::TextForm form = stdout_form(how.form.markdown);
  print_result(results::to_text(results::Preformatted{results::header_text(record, form)}, form));
}

void print_record(const results::RunRecord& record, results::RenderOptions how, bool with_header) {
  if (with_header) print_header(record, how);
  how.form = stdout_form(how.form.markdown);
  print_result("\n" + results::render(record, how));
  const std::string closing = results::closing_text(record, how.form);
  if (!closing.empty()) print_result("\n" + results::to_text(results::Preformatted{closing}, how.form));
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

/// Marks a record and its unfinished row with the cause of their end.
void mark_incomplete(results::RunRecord& record, const std::string& reason) {
  record.incomplete = reason;
  for (results::Run& run : record.runs) {
    if (run.unfinished == results::kNotEnded) run.unfinished = reason;
  }
}

}  // namespace

ResultKeeper::ResultKeeper(const BenchPlan& plan, const fs::path& place)
    : file_(plan.record_path, place), plan_(plan) {}

fs::path ResultKeeper::prepare() const {
  fs::path place = results::PartialFile::place_for(file_.path());
  // Beside a device there is no room for a file.
  if (place.empty()) place = temporary_record_path(std::to_string(::getpid()));
  if (keeps_privately()) {
    make_private_folder(place.parent_path());
  } else {
    set_aside(results::PartialFile::beside(file_.path()));
  }
  return place;
}

bool ResultKeeper::keeps_privately() const {
  return plan_.options.json_path.empty() || results::PartialFile::place_for(file_.path()).empty();
}

void ResultKeeper::finish(const results::RunRecord& record) const {
  // The next launch reads the record and adds itself; tables of all launches are printed once, at the end.
  if (plan_.launch < plan_.launches) {
    file_.update(record);
    return;
  }
  const BenchOptions& options = plan_.options;
  // The files first: standard output may be full.
  if (!options.json_path.empty()) file_.finish(record);
  if (keeps_privately()) drop_temporary();
  if (!options.csv_path.empty()) write_file_atomically(options.csv_path, results::to_csv(record));
  print_record(record, options.how, /*with_header=*/false);
}

void ResultKeeper::finish_incomplete(const std::string& reason) const {
  if (!holds_something(file_.place())) {
    print_note("nothing was measured yet");
    if (keeps_privately()) drop_temporary();
    return;
  }
  results::RunRecord record = results::read_record(file_.place());
  mark_incomplete(record, reason);
  keeps_privately() ? drop_temporary() : file_.update(record);
  const std::string& csv_path = plan_.options.csv_path;
  const bool older_csv = !csv_path.empty() && holds_something(csv_path);
  if (!csv_path.empty() && !older_csv) write_file_atomically(csv_path, results::to_csv(record));
  print_record(record, plan_.options.how, /*with_header=*/false);
  if (!keeps_privately()) print_place();
  if (older_csv) print_note(fmt::format("{} is still that of an earlier run", csv_path));
}

void ResultKeeper::print_place() const {
  std::string line = fmt::format("what was measured is in {}, marked incomplete", file_.place().string());
  if (file_.place() != file_.path())
    line += fmt::format("; {} is still that of an earlier run", plan_.options.json_path);
  print_note(line);
}

void ResultKeeper::drop_temporary() const {
  if (file_.place().empty()) return;
  std::error_code ignored;
  fs::remove(file_.place(), ignored);
  // The folder is the run's own, and stays while it holds anything else.
  fs::remove(file_.place().parent_path(), ignored);
}

fs::path temporary_record_path(const std::string& job) {
  return temporary_path(fmt::format("lockstep-record-{}-{}", ::geteuid(), job)) / "result.json";
}

}  // namespace lockstep::cli
