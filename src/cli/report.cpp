#include "report.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/plots/page.h"

#include "plot_sources.h"

namespace lockstep::cli {

void add_report_flags(CLI::App& command, ReportOptions& options) {
  command.add_option("runs", options.runs,
                     "files of `lockstep bench --json FILE`, or of PyTorch's DDP benchmark");
  command
      .add_option("--published", options.published,
                  "a published table to draw beside them (may be given again)")
      ->type_name("FILE.csv")
      ->expected(1)
      ->take_all();
  command.add_option("-o,--output", options.output, "the page to write; - for stdout")
      ->type_name("FILE.html")
      ->required();
  command.footer(
      "Examples:\n"
      "  lockstep report run.json -o report.html\n"
      "  lockstep report before.json after.json -o report.html\n"
      "  lockstep report run.json --published data/published/pytorch_throughput.csv -o report.html\n"
      "The page holds all that it shows: no script, nothing fetched. docs/reading-the-report.md explains "
      "it.\n");
}

int run_report(const ReportOptions& options) {
  if (options.output != "-") check_writable(options.output, "-o");
  write_result(options.output, plots::report_page(read_sources(options.runs, options.published)));
  return kExitDone;
}

}  // namespace lockstep::cli
