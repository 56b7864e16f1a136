#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "lockstep/base/allocator.h"

#include "bench.h"
#include "console.h"
#include "diff.h"
#include "feed.h"
#include "info.h"
#include "plot.h"
#include "presets.h"
#include "report.h"
#include "show.h"
#include "topo.h"
#include "train.h"
#include "verify.h"
#include "version.h"

namespace {

using namespace lockstep;
using namespace lockstep::cli;

constexpr const char* kFooter = R"(Start here:
  lockstep bench                     train ResNet-50 on 1, 2, ... ranks and print how it scales
  lockstep bench --help              every flag, with examples
  lockstep info                      what is installed, and what can be measured
  lockstep topo                      what this machine looks like
  lockstep report RESULT.json -o report.html
                                     explain a result on one page, with charts
  lockstep diff BASE.json TEST.json  what changed between two results, and how sure that is

Exit codes: 0 done, 1 the run or a check failed, 2 wrong usage, 3 a regression was found,
4 a backend is missing, 130 interrupted (Ctrl-C), 143 terminated.
)";

}  // namespace

int main(int argc, char** argv) {
  keep_freed_pages();
  CLI::App app("lockstep measures data-parallel training and explains the result", "lockstep");
  app.footer(kFooter);
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);

  BenchOptions bench_options;
  CLI::App* bench = app.add_subcommand("bench", "train on 1, 2 and more ranks and print how it scales");
  add_bench_flags(*bench, bench_options);

  TrainOptions train_options;
  CLI::App* train = app.add_subcommand("train", "train a network, with checkpoints to go on from");
  add_train_flags(*train, train_options);

  VerifyOptions verify_options;
  CLI::App* verify = app.add_subcommand("verify", "check that strategies compute what they promise");
  add_verify_flags(*verify, verify_options);

  InfoOptions info_options;
  CLI::App* info =
      app.add_subcommand("info", "versions, devices, backends, models, strategies, inputs and presets");
  add_info_flags(*info, info_options);

  DiffCommandOptions diff_options;
  CLI::App* diff = app.add_subcommand("diff", "compare two results, row by row, and say what is certain");
  add_diff_flags(*diff, diff_options);

  ReportOptions report_options;
  CLI::App* page = app.add_subcommand("report", "write a page that explains one or several results");
  add_report_flags(*page, report_options);

  ShowOptions show_options;
  CLI::App* show = app.add_subcommand("show", "print the tables of a saved result, in any style");
  add_show_flags(*show, show_options);

  PlotOptions plot_options;
  CLI::App* plot = app.add_subcommand("plot", "write one chart of one or several results as SVG");
  add_plot_flags(*plot, plot_options);

  FeedOptions feed_options;
  CLI::App* feed = app.add_subcommand("feed", "send random batches to a bench with --input zmq");
  add_feed_flags(*feed, feed_options);

  TopoOptions topo_options;
  CLI::App* topo = app.add_subcommand("topo", "processors, GPUs and network devices, and what connects them");
  add_topo_flags(*topo, topo_options);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? kExitDone : kExitUsage;
  }
  try {
    if (bench->parsed() && !bench_options.preset.empty()) {
      bench_options.preset_note = apply_preset(bench_options.preset, *bench, bench_options.sweep);
    }
    if (bench->parsed()) return run_bench(bench_options, {argv, argv + argc});
    if (train->parsed()) return run_train(train_options, {argv, argv + argc});
    if (verify->parsed()) return run_verify(verify_options);
    if (feed->parsed()) return run_feed(feed_options);
    if (diff->parsed()) return run_diff(diff_options);
    if (show->parsed()) return run_show(show_options);
    if (page->parsed()) return run_report(report_options);
    if (plot->parsed()) return run_plot(plot_options);
    if (topo->parsed()) return run_topo(topo_options);
    return run_info(info_options);
  } catch (const std::exception& error) {
    return report(error);
  }
}
