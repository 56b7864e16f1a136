#include "lockstep/results/tables/diff.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/results/files/record_json.h"

#include "collectives_plan.h"
#include "commands.h"
#include "console.h"

namespace lockstep::cli {
namespace {

constexpr const char* kDiffExamples = R"(Examples:
  lockstep bench --repeat 5 --json base.json          before a change ...
  lockstep bench --repeat 5 --json test.json          ... and after it
  lockstep diff base.json test.json
  lockstep diff base.json test.json --fail-on regression --threshold 3%
  lockstep diff buckets_25.json buckets_1.json        what one setting changes
Rows are matched by model, batch, ranks and settings. A setting that has one value in each file, and not the
same, is the subject of the comparison. docs/measuring.md explains the verdicts.
)";

struct DiffCommandOptions {
  std::string base;
  std::string test;
  double threshold = 0.02;
  std::string fail_on;
  std::string percentile = "p75";
  bool paired = false;
  bool as_same = false;
  bool markdown = false;
};

/// Returns kExitRegression under --fail-on regression when there is one; throws ConfigError when --fail-on
/// could not have found any.
int run_diff(const DiffCommandOptions& options, const Flags& flags) {
  const NamedText base_file = read_given(options.base), test_file = read_given(options.test);
  const bool collectives = collectives::is_record(base_file.text);
  if (collectives != collectives::is_record(test_file.text)) {
    throw ConfigError(fmt::format("'{}' is a table of collectives, and '{}' is not",
                                  collectives ? base_file.name : test_file.name,
                                  collectives ? test_file.name : base_file.name),
                      "Compare two files of one kind.");
  }
  if (collectives) {
    flags.refuse({"--fail-on", "--threshold", "--by", "--paired", "--as-same"}, "on tables of collectives",
                 "It judges launches of a training.");
    print_result(results::to_text(collectives_diff(collectives::from_json(base_file.text, base_file.name),
                                                   collectives::from_json(test_file.text, test_file.name)),
                                  stdout_form(options.markdown)));
    return kExitDone;
  }
  const results::DiffOptions how{.threshold = options.threshold,
                                 .paired = options.paired,
                                 .decisive = std::stoi(options.percentile.substr(1)),
                                 .as_same = options.as_same};
  const results::RunRecord base = results::from_json(base_file.text, base_file.name);
  const results::RunRecord test = results::from_json(test_file.text, test_file.name);
  const results::Diff diff = results::compare_records(base, test, how);
  if (options.as_same && std::ranges::none_of(diff.rows, [](const results::DiffRow& row) {
        return row.base->recorded || row.test->recorded;
      }))
    throw ConfigError("--as-same has no effect: no row is a recorded training");
  if (options.paired && std::ranges::none_of(diff.rows, &results::DiffRow::has_pairs)) {
    throw ConfigError("--paired has no effect: no row has as many launches in both files, three or more",
                      "'lockstep compare' measures pairs of launches.");
  }
  print_result(results::to_text(results::diff_tables(diff), stdout_form(options.markdown)));
  if (options.fail_on.empty()) return kExitDone;
  if (diff.judged_rows() == 0) {
    // A gate that lets everything pass would be worse than no gate.
    throw ConfigError(
        "--fail-on regression needs a row of two launches or more on both sides, with steps enough for --by",
        "Measure both files with 'lockstep bench --repeat 5'.");
  }
  const size_t blind = diff.rows.size() - static_cast<size_t>(diff.judged_rows());
  if (blind > 0) {
    print_warning(
        fmt::format("{} of {} rows have one launch on a side, or too few steps for --by, and cannot fail",
                    blind, diff.rows.size()),
        "Measure them with 'lockstep bench --repeat 5'.");
  }
  if (!diff.only_base.empty()) {
    print_warning(
        fmt::format("{} rows of the base are missing in the test and cannot fail", diff.only_base.size()),
        "Measure the same rows in both.");
  }
  return diff.regressions() > 0 ? kExitRegression : kExitDone;
}

}  // namespace

RunCommand add_diff(Flags& flags) {
  const auto options = std::make_shared<DiffCommandOptions>();
  flags.set_examples(kDiffExamples);
  flags.add("base", options->base,
            "the result before: a file of 'lockstep bench --json FILE' or 'lockstep collectives --json "
            "FILE', or of "
            "PyTorch's DDP benchmark",
            {.value = "BASE", .required = true});
  flags.add("test", options->test, "the result to compare with it", {.value = "TEST", .required = true});
  flags.add(
      "--fail-on", options->fail_on,
      "exit with 3 on a regression: a row that is certainly slower, and by more than --threshold; needs "
      "files of two launches or more (bench --repeat)",
      {.value = "KIND", .one_of = {"regression"}});
  flags.add("--threshold", options->threshold,
            "slowdown that a regression must exceed: a percentage (2%) or a share below 1 (0.02)",
            {.value = "SHARE", .numbers = NumberRange{.most = 1, .below = true, .unit = Unit::kShare}});
  flags.add("--by", options->percentile, "percentile of the step time by which a row is judged",
            {.value = "PERCENTILE", .one_of = {"p50", "p75", "p90", "p95", "p99"}});
  flags.add_switch(
      "--paired", options->paired,
      "launch i of both files ran side by side (base, test, test, base, ...): compare pairs, which "
      "removes drift; needs three pairs or more");
  flags.add_switch(
      "--as-same", options->as_same,
      "compare recorded trainings ('lockstep import') even if nothing says that they are the same");
  flags.add_switch("--markdown", options->markdown, "write tables as GitHub's Markdown");
  return [options, &flags](const Arguments& /*arguments*/) { return run_diff(*options, flags); };
}

}  // namespace lockstep::cli
