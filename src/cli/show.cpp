#include "show.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/results/csv.h"
#include "lockstep/results/json_reader.h"
#include "lockstep/results/text.h"

#include "console.h"
#include "plot_sources.h"

namespace lockstep::cli {

void add_show_flags(CLI::App& command, ShowOptions& options) {
  command
      .add_option("file", options.file,
                  "of `lockstep bench --json FILE`, its FILE.partial, or of PyTorch's DDP benchmark")
      ->type_name("FILE")
      ->required();
  std::string styles;
  for (const auto& [name, style] : results::styles().entries()) {
    styles += fmt::format("\n  {}: {}", name, style.what);
  }
  command.add_option("--style", options.how.style, "how the tables are written:" + styles)
      ->type_name("NAME")
      ->capture_default_str();
  command.add_flag("--markdown", options.how.markdown, "write GitHub's Markdown");
  command.add_option("--epoch-size", options.how.epoch_size, "images per epoch, for the style theano")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
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
  const results::TextForm form = options.how.form();
  print_result(results::verbatim(results::header_text(record), form) + "\n" +
               results::render(record, options.how));
  const std::string closing = results::closing_text(record);
  if (!closing.empty()) print_result("\n" + results::verbatim(closing, form));
  return kExitDone;
}

}  // namespace lockstep::cli
