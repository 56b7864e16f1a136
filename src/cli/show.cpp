#include "show.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/results/files/csv.h"
#include "lockstep/results/files/json_reader.h"

#include "plot_sources.h"
#include "style_flags.h"

namespace lockstep::cli {

void add_show_flags(CLI::App& command, ShowOptions& options) {
  command
      .add_option("file", options.file,
                  "of `lockstep bench --json FILE`, its FILE.partial, or of PyTorch's DDP benchmark")
      ->type_name("FILE")
      ->required();
  add_style_flags(command, options.how);
  command.add_option("--csv", options.csv, "write one line per row to this file instead; - for stdout")
      ->type_name("FILE");
  command.footer(
      "Examples:\n"
      "  lockstep show run.json\n"
      "  lockstep show run.json --style throughput\n"
      "  lockstep show run.json --markdown > run.md\n"
      "  lockstep show run.json --csv - | column -s, -t\n");
}

int run_show(const ShowOptions& options) {
  // A wrong name first: the file may be large.
  results::styles().get(options.how.style);
  if (!options.csv.empty() && options.csv != "-") check_writable(options.csv, "--csv");
  const results::RunRecord record = results::read_record(options.file);
  if (!options.csv.empty()) {
    write_result(options.csv, results::to_csv(record));
    return kExitDone;
  }
  print_record(record, options.how, /*with_header=*/true);
  return kExitDone;
}

}  // namespace lockstep::cli
