#include "result_keeper.h"

#include <filesystem>
#include <functional>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/comm/helper_thread.h"
#include "lockstep/results/files/record_json.h"
#include "lockstep/results/tables/tables.h"

#include "console.h"
#include "output_files.h"

namespace lockstep::cli {
namespace fs = std::filesystem;

void print_header(const results::RunRecord& record, const results::RenderOptions& how) {
  const results::TextForm form = stdout_form(how.form.markdown);
  print_result(results::to_text(results::Preformatted{results::header_text(record, form)}, form));
}

void print_record(const results::RunRecord& record, results::RenderOptions how, bool with_header,
                  const results::Document& more) {
  if (with_header) print_header(record, how);
  how.form = stdout_form(how.form.markdown);
  print_result("\n" + results::render(record, how));
  if (!more.empty()) print_result("\n" + results::to_text(more, how.form));
  const std::string closing = results::closing_text(record, how.form);
  if (!closing.empty()) print_result("\n" + results::to_text(results::Preformatted{closing}, how.form));
}

namespace {

/// The first of FILE.old, FILE.old2, FILE.old3, ... that is free.
fs::path old_name(const fs::path& file, const std::function<bool(const fs::path&)>& is_free) {
  fs::path name = file.string() + ".old";
  for (int number = 2; !is_free(name); ++number) name = fmt::format("{}.old{}", file.string(), number);
  return name;
}

/// FILE.partial, the place of a record while FILE holds an earlier one.
fs::path partial_of(const fs::path& path) {
  return path.string() + ".partial";
}

/// Gives a record that an earlier run left at `partial` a name that nothing has.
void set_aside(const fs::path& partial) {
  std::error_code failed;
  if (!fs::exists(partial, failed)) return;
  const fs::path aside = old_name(partial, [](const fs::path& name) { return !fs::exists(name); });
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

/// Takes every step, whether or not one before it failed (nobody may read what is printed). Throws one Error
/// for all that failed.
void take_all(std::initializer_list<std::function<void()>> steps) {
  const comm::SigpipeBlock no_sigpipe;
  Trouble trouble;
  for (const auto& step : steps) {
    try {
      step();
    } catch (const std::exception& error) {
      const Trouble next = trouble_of(error);
      trouble = trouble ? Trouble{trouble.what + "; " + next.what, trouble.advice} : next;
    }
  }
  if (trouble) throw Error(trouble);
}

/// Writes the whole record to the file of --json, and leaves nothing else of this run.
void write_json(const BenchOptions& options, const KeptRecord& kept, const results::RunRecord& record) {
  const fs::path path = options.json_path;
  const std::string text = results::to_json(record);
  const bool older = kept.file() != path && holds_something(path) && !options.append;
  if (!older) {
    write_file_atomically(path, text);
  } else {
    const fs::path old = old_name(fs::canonical(path), [](const fs::path& name) {
      return !fs::exists(name) || (holds_something(name) && is_own(name));
    });
    write_file_atomically(path, {text}, old);
    print_note(fmt::format("the earlier result in '{}' is '{}' now", path.string(), old.string()));
  }
  std::error_code ignored;
  if (!kept.file().empty() && kept.file() != path) fs::remove(kept.file(), ignored);
}

}  // namespace

KeptRecord prepare_record(const BenchOptions& options) {
  const fs::path path = options.json_path;
  // Beside a device there is no room for a file.
  if (path.empty() || is_device_or_pipe(path)) return KeptRecord::make({});
  set_aside(partial_of(path));
  // mktemp leaves an empty file.
  return KeptRecord::make(holds_something(path) ? partial_of(path) : path);
}

void finish_results(const BenchPlan& plan, const KeptRecord& kept, const results::RunRecord& record,
                    const std::string& trace) {
  // The next launch reads the record and adds itself; tables of all launches are printed once, at the end.
  if (plan.launch < plan.launches) return kept.write(record);
  const BenchOptions& options = plan.options;
  take_all({[&] { print_record(record, options.how, /*with_header=*/false); },
            [&] {
              if (!options.json_path.empty()) write_json(options, kept, record);
            },
            [&] {
              if (!options.csv_path.empty()) write_file_atomically(options.csv_path, results::to_csv(record));
            },
            [&] {
              if (!trace.empty()) write_file_atomically(options.trace_path, trace);
            }});
}

void finish_incomplete(const BenchPlan& plan, const KeptRecord& kept, const std::string& reason) {
  const BenchOptions& options = plan.options;
  std::optional<results::RunRecord> record = kept.read();
  if (!options.trace_path.empty())
    print_note(
        fmt::format("no trace was written to {}: it is made when all is measured", options.trace_path));
  if (!record) {
    print_note(kept.within_reach() ? "nothing was measured yet"
                                   : "what was measured is lost with the memory of rank 0's host");
    return;
  }
  mark_incomplete(*record, reason);
  const auto still_older = [](const std::string& path) {
    return fmt::format("{} is still that of an earlier run", path);
  };
  take_all({[&] { print_record(*record, options.how, /*with_header=*/false); },
            [&] {
              if (options.csv_path.empty()) return;
              if (holds_something(options.csv_path)) return print_note(still_older(options.csv_path));
              write_file_atomically(options.csv_path, results::to_csv(*record));
            },
            [&] {
              if (kept.file().empty()) return;
              write_file_atomically(kept.file(), results::to_json(*record));
              std::string line =
                  fmt::format("what was measured is in {}, marked incomplete", kept.file().string());
              if (kept.file() != options.json_path) line += "; " + still_older(options.json_path);
              print_note(line);
            }});
}

}  // namespace lockstep::cli
