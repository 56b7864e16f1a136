#include "plot.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/plots/chart.h"

#include "plot_sources.h"

namespace lockstep::cli {

void add_plot_flags(CLI::App& command, PlotOptions& options) {
  command.add_option("runs", options.runs,
                     "files of `lockstep bench --json FILE`, or of PyTorch's DDP benchmark");
  command.add_option("--chart", options.chart, fmt::format("{}", fmt::join(plots::charts().names(), ", ")))
      ->type_name("NAME")
      ->required();
  command
      .add_option("--published", options.published,
                  "a published table to draw beside them (may be given again)")
      ->type_name("FILE.csv")
      ->expected(1)
      ->take_all();
  command.add_option("--width", options.width, "of the drawing, in pixels at which its text is 13 px high")
      ->check(CLI::Range(plots::kNarrowChart, 2000.0))
      ->capture_default_str();
  command.add_option("-o,--output", options.output, "the drawing to write; - for stdout")
      ->type_name("FILE.svg")
      ->required();
  command.footer(
      "Examples:\n"
      "  lockstep plot run.json --chart speedup -o speedup.svg\n"
      "  lockstep plot before.json after.json --chart throughput -o throughput.svg\n"
      "  lockstep plot --published data/published/theano_mpi.csv --chart speedup -o theano.svg\n");
}

int run_plot(const PlotOptions& options) {
  const plots::DrawChart draw = plots::charts().get(options.chart);
  if (options.output != "-") check_writable(options.output, "-o");
  const plots::ChartForm form{options.width, options.chart};
  const plots::Chart chart = draw(read_sources(options.runs, options.published), form);
  if (!chart.drawn())
    throw Error(fmt::format("chart '{}' cannot be drawn: {}", options.chart, chart.missing), chart.advice);
  write_result(options.output, plots::standalone_svg(chart, form));
  return kExitDone;
}

}  // namespace lockstep::cli
