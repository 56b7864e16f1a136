#include "lockstep/base/error.h"
#include "lockstep/results/files/csv.h"
#include "lockstep/results/files/record_json.h"

#include "commands.h"
#include "console.h"
#include "output_files.h"
#include "result_keeper.h"
#include "shared_flags.h"

namespace lockstep::cli {
namespace {

constexpr const char* kShowExamples = R"(Examples:
  lockstep show run.json
  lockstep show run.json --style throughput
  lockstep show run.json --markdown > run.md
  lockstep show run.json --csv - | column -s, -t
)";

struct ShowOptions {
  std::string file;
  results::RenderOptions how;
  /// File for the rows as CSV in place of tables; "-" for stdout, empty: tables.
  std::string csv;
  bool force = false;
};

int run_show(const ShowOptions& options) {
  // Checked before the file, which may be large, is read.
  results::styles().get(options.how.style);
  check_output_files({{"--csv", options.csv}}, {{"the file to show", options.file}}, options.force);
  const results::RunRecord record = results::read_record(options.file);
  if (!options.csv.empty()) {
    write_result(options.csv, results::to_csv(record));
    return kExitDone;
  }
  print_record(record, options.how, /*with_header=*/true);
  return kExitDone;
}

}  // namespace

RunCommand add_show(Flags& flags) {
  const auto options = std::make_shared<ShowOptions>();
  flags.set_examples(kShowExamples);
  flags.add("file", options->file,
            "a file of 'lockstep bench --json FILE', its FILE.partial, or of PyTorch's DDP benchmark",
            {.value = "FILE", .required = true});
  add_style_flags(flags, options->how);
  flags.add("--csv", options->csv, "write a line per row to this file in place of tables; - for stdout",
            {.value = "FILE"});
  add_force_flag(flags, options->force);
  return [options](const Arguments& /*arguments*/) { return run_show(*options); };
}

}  // namespace lockstep::cli
