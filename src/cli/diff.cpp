#include "diff.h"

#include <algorithm>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/results/files/json_reader.h"
#include "lockstep/results/tables/diff.h"
#include "lockstep/results/tables/diff_text.h"

#include "console.h"

namespace lockstep::cli {

void add_diff_flags(CLI::App& command, DiffCommandOptions& options) {
  command
      .add_option("base", options.base,
                  "what was before: a file of `lockstep bench --json FILE`, or of PyTorch's DDP benchmark")
      ->type_name("BASE")
      ->required();
  command.add_option("test", options.test, "what is compared with it")->type_name("TEST")->required();
  command
      .add_option(
          "--fail-on", options.fail_on,
          "exit with 3 on a regression: a row that is certainly slower, and by more than --threshold. "
          "Needs files of two launches or more (bench --repeat)")
      ->type_name("regression")
      ->check(CLI::IsMember({"regression"}));
  command
      .add_option("--threshold", options.threshold,
                  "what a regression must exceed: per cent with its sign, or a share below 1 (0.02)")
      ->type_name("SHARE")
      ->capture_default_str();
  command.add_option("--by", options.percentile, "the percentile of the step time that a row is judged by")
      ->type_name("p50|p75|p90|p95|p99")
      ->check(CLI::IsMember({"p50", "p75", "p90", "p95", "p99"}))
      ->capture_default_str();
  command.add_flag("--paired", options.paired,
                   "launch i of both files ran side by side (base, test, test, base, ...): compares pairs, "
                   "which takes out what drifts; from three pairs on");
  command.add_flag("--markdown", options.markdown, "write GitHub's Markdown");
  command.footer(
      "Examples:\n"
      "  lockstep bench --repeat 5 --json base.json          before a change ...\n"
      "  lockstep bench --repeat 5 --json test.json          ... and after it\n"
      "  lockstep diff base.json test.json\n"
      "  lockstep diff base.json test.json --fail-on regression --threshold 3%\n"
      "  lockstep diff buckets_25.json buckets_1.json        what one setting changes\n"
      "Rows are matched by model, batch, ranks and settings. A setting with one value in each file that\n"
      "differs is what they are compared for. docs/measuring.md explains the verdicts.\n");
}

int run_diff(const DiffCommandOptions& options) {
  const results::DiffOptions how{.threshold = results::parse_threshold(options.threshold),
                                 .paired = options.paired,
                                 .decisive = std::stoi(options.percentile.substr(1))};
  const results::RunRecord base = results::read_record(options.base);
  const results::RunRecord test = results::read_record(options.test);
  const results::Diff diff = results::compare_records(base, test, how);
  print_result(results::to_text(results::diff_tables(diff), options.markdown ? results::TextForm::kMarkdown
                                                                             : results::TextForm::kTerminal));
  if (options.fail_on.empty()) return kExitDone;
  if (diff.rows_over_launches() == 0) {
    // A gate that lets everything pass would be worse than none.
    throw ConfigError("--fail-on regression needs two launches or more on both sides, in one row at least",
                      "Measure both files with 'lockstep bench --repeat 5'.");
  }
  const size_t blind = diff.rows.size() - static_cast<size_t>(diff.rows_over_launches());
  if (blind > 0) {
    print_warning(
        fmt::format("{} of {} rows have one launch on a side and cannot fail", blind, diff.rows.size()),
        "Measure them with 'lockstep bench --repeat 5'.");
  }
  if (!diff.only_base.empty()) {
    print_warning(
        fmt::format("{} rows of the base are missing in the test and cannot fail", diff.only_base.size()),
        "Measure the same rows in both.");
  }
  return diff.regressions() > 0 ? kExitRegression : kExitDone;
}

}  // namespace lockstep::cli
