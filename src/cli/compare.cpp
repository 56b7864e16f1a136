#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/base/names.h"
#include "lockstep/base/plain_text.h"
#include "lockstep/base/units.h"
#include "lockstep/results/tables/tables.h"

#include "bench_options.h"
#include "bench_recorder.h"
#include "commands.h"
#include "compare_turns.h"
#include "console.h"
#include "shared_flags.h"

namespace lockstep::cli {
namespace fs = std::filesystem;
namespace {

constexpr const char* kCompareExamples = R"(Examples:
  lockstep compare --model resnet18 --ranks 2 --bucket-mb 25 -- --bucket-mb 1
      buckets of 25 MiB against buckets of 1 MiB, everything else alike
  lockstep compare --model resnet50 --strategy ddp -- --strategy replicated
      two strategies
  lockstep compare --model lenet5 --ranks 1 --
      a configuration against itself: is this machine quiet enough to compare anything?
  lockstep compare --threshold 1% --max-time 2h --keep turns --threads 2 -- --threads 1
      changes of 1 % matter; the results of both sides stay in the folder 'turns'
  lockstep compare --fail-on regression --ranks 1 -- --kernels aten
      exit code 3 if the test is certainly slower, by more than the threshold
Flags of 'lockstep bench' before '--' are those of the base; the test has them too, with those behind '--' in
their place. docs/comparing.md explains the rule that ends a comparison.
)";

struct CompareOptions {
  PassedOn words;
  double threshold = 0.02;
  int most_launches = 64;
  double max_time_s = 1800;
  double row_time_s = 10;
  std::string percentile = "p50";
  std::string fail_on;
  std::string keep;
  bool force = false;
  bool markdown = false;
  bool dry_run = false;
  bool quiet = false;
};

void check_words(const PassedOn& words) {
  if (!words.divided) {
    throw ConfigError("compare needs '--' between the flags of the base and those of the test",
                      "As in 'lockstep compare --ranks 2 --bucket-mb 25 -- --bucket-mb 1': the test has the "
                      "flags of the base, and its own in their place.");
  }
  for (const Arguments* side : {&words.before, &words.behind}) {
    for (const std::string& word : *side) {
      if (!word.starts_with('-') ||
          std::ranges::find(results::kFlagsOfALaunch, flag_name(word)) == results::kFlagsOfALaunch.end())
        continue;
      throw ConfigError(
          fmt::format("{} cannot be a flag of one side of a comparison", word.substr(0, word.find('='))),
          "'lockstep compare --help' lists the flags that stand before '--' and concern both; "
          "'lockstep bench' has the others.");
    }
  }
}

/// The rows that a plan will measure, without samples.
results::RunRecord planned_record(const BenchPlan& plan) {
  results::RunRecord record;
  for (const train::RowPlan& row : plan.job.rows) {
    results::Run run;
    static_cast<results::Setup&>(run) = row;
    run.backend = plan.job.site.options.backend;
    run.threads_per_rank = plan.job.binding.threads_per_rank;
    record.runs.push_back(std::move(run));
  }
  return record;
}

/// Both sides before anything is measured.
struct ComparePlan {
  BenchPlan base;
  BenchPlan test;
  results::RunRecord base_rows;
  results::RunRecord test_rows;
  /// Points into the two above.
  results::Diff diff;
};

/// The subject of the comparison, printed before the first launch.
std::string plan_lines(const ComparePlan& plan, const CompareOptions& options, const TurnOptions& turns) {
  std::string text =
      fmt::format("base: {}\ntest: {}\n", command_text(plan.base.command), command_text(plan.test.command));
  std::vector<std::string> changes;
  for (const results::SettingChange& change : plan.diff.changes)
    changes.push_back(fmt::format("{} ({} in base, {} in test)", change.name, change.base, change.test));
  text += changes.empty()
              ? "Compared for: nothing that a result file has; the settings of both are the same\n"
              : fmt::format("Compared for: {}\n", fmt::join(changes, ", "));
  if (options.dry_run) {
    std::vector<std::string> rows;
    for (const results::DiffRow& row : plan.diff.rows) rows.push_back(results::row_label(row, plan.diff));
    text += fmt::format("Rows: {}\n", fmt::join(rows, "; "));
    text += fmt::format(
        "At most {} launches of each side or {}, at most {} for a row of one launch; looks after {} "
        "launches of each\n",
        turns.most_pairs, format_duration(options.max_time_s), format_duration(options.row_time_s),
        fmt::join(measure::LookPlan(turns.most_pairs).looks(), ", "));
  }
  return text;
}

/// Refuses rows whose steps are not the same work, so that their times cannot be compared.
void check_work(const ComparePlan& plan) {
  for (const results::DiffRow& row : plan.diff.rows) {
    const double base = row.base->images_per_rank_step();
    const double test = row.test->images_per_rank_step();
    if (base == test) continue;
    throw ConfigError(
        fmt::format("a step of {} has {:g} {}s per rank in base and {:g} in test",
                    results::row_label(row, plan.diff), base, row.base->unit, test),
        "compare judges by the time of a step: give both sides the same --batch and --accumulate.");
  }
}

ComparePlan plan_of(BenchPlan base, BenchPlan test) {
  if (base.options.breakdown || test.options.breakdown)
    throw ConfigError("--breakdown has no effect on compare, which judges by the time of a step",
                      "Compare two files of 'lockstep bench --breakdown --repeat 5' with 'lockstep diff'.");
  if (base.job.site.environment) {
    throw ConfigError(
        "compare starts every launch itself, and a launcher started this one",
        "Run it without mpirun, srun or torchrun; --backend mpi starts mpirun for each launch.");
  }
  ComparePlan plan{.base = std::move(base), .test = std::move(test)};
  plan.base_rows = planned_record(plan.base);
  plan.test_rows = planned_record(plan.test);
  plan.diff = results::compare_records(plan.base_rows, plan.test_rows, {});
  for (const auto& [side, rows] :
       {std::pair{"base", plan.diff.only_base.size()}, {"test", plan.diff.only_test.size()}}) {
    if (rows == 0) continue;
    print_warning(fmt::format("{} only in {} and not compared",
                              rows == 1 ? "1 row is" : fmt::format("{} rows are", rows), side),
                  "Give both sides the same --model, --batch and --ranks.");
  }
  check_work(plan);
  return plan;
}

/// Both sides after all checks of bench; empty where a side asked for help, which is printed.
std::optional<ComparePlan> plan_sides(const PassedOn& words) {
  check_words(words);
  const auto plan_side = [](const Arguments& flags) {
    Arguments command{"lockstep", "bench"};
    command.insert(command.end(), flags.begin(), flags.end());
    Arguments checked = command;
    // Controls do not show the difference between the sides; users may still ask for them.
    checked.emplace_back("--no-controls");
    std::optional<BenchPlan> plan = plan_bench(checked);
    if (plan) plan->command = command;
    return plan;
  };
  std::optional<BenchPlan> base = plan_side(words.before);
  std::optional<BenchPlan> test = base ? plan_side(with_flags(words.before, words.behind)) : std::nullopt;
  if (!base || !test) return std::nullopt;
  return plan_of(std::move(*base), std::move(*test));
}

/// Returns the exit code: that of the comparison, unless what it measured is lost.
int print_outcome(const TurnRunner& runner, const TurnFolder& folder, const CompareOptions& options,
                  int exit_code) {
  if (runner.diff()) {
    print_result(results::to_text(results::compare_tables(*runner.diff(), runner.turns()),
                                  stdout_form(options.markdown)));
  } else {
    print_note("no pair of launches was compared");
  }
  if (options.keep.empty()) return exit_code;
  if (const Trouble trouble = folder.save()) {
    print_error("nothing is kept: " + trouble.what, trouble.advice);
    return exit_code == kExitDone ? kExitFailed : exit_code;
  }
  if (!runner.diff()) return exit_code;
  // As many as `diff --paired` needs.
  const char* paired = runner.turns().pairs < 3 ? "" : " --paired";
  print_note(fmt::format("kept: lockstep diff {0}/base.json {0}/test.json{1} --by {2}", options.keep, paired,
                         options.percentile));
  return exit_code;
}

int run_compare(const CompareOptions& options) {
  const std::optional<ComparePlan> plan = plan_sides(options.words);
  if (!plan) return kExitDone;
  TurnOptions turns;
  turns.how = {
      .threshold = options.threshold, .paired = true, .decisive = std::stoi(options.percentile.substr(1))};
  turns.most_pairs = static_cast<size_t>(options.most_launches);
  turns.max_time_s = options.max_time_s;
  if (options.dry_run) {
    print_result(plan_lines(*plan, options, turns));
    return kExitDone;
  }
  check_start(plan->base);
  check_start(plan->test);
  const TurnFolder folder(options.keep, options.force);
  turns.base = side_of("base", plan->base.command, folder.base(), options.row_time_s);
  turns.test = side_of("test", plan->test.command, folder.test(), options.row_time_s);
  turns.log = folder.log();
  // Where it fails, the end may still succeed, and says so if not.
  turns.save = [&] { folder.save(); };
  ::setenv(kKernelsOfVariable, folder.base().c_str(), 1);
  print_result(plan_lines(*plan, options, turns) + "\n");

  TurnRunner runner(std::move(turns));
  try {
    runner.run();
  } catch (const std::exception& error) {
    return print_outcome(runner, folder, options, report(error));
  }
  const auto signal = runner.interrupted_by();
  const bool judged = !signal && !options.fail_on.empty() && runner.diff();
  const bool regressed = judged && runner.diff()->regressions() > 0;
  const int code = print_outcome(runner, folder, options,
                                 signal      ? 128 + *signal
                                 : regressed ? kExitRegression
                                             : kExitDone);
  if (judged && runner.diff()->judged_rows() == 0)
    throw ConfigError("--fail-on regression needs two launches of each side", "Give more --max-time.");
  return code;
}

}  // namespace

RunCommand add_compare(Flags& flags) {
  const auto options = std::make_shared<CompareOptions>();
  flags.pass_on(options->words);
  flags.set_examples(kCompareExamples);
  flags.begin_group("Options, before '--'");
  flags.add(
      "--threshold", options->threshold,
      "ends when a change is certainly there, or certainly smaller than this: a percentage (2%) or a share "
      "below 1 (0.02)",
      {.value = "SHARE",
       .numbers = NumberRange{.most = 1, .above = true, .below = true, .unit = Unit::kShare}});
  flags.add("--max-launches", options->most_launches, "launches of each side, at most",
            {.numbers = NumberRange{.least = 3, .most = 1000}});
  flags.add("--max-time", options->max_time_s, "seconds after which no further launches are begun",
            {.numbers = times_from(0)});
  flags.add("--row-time", options->row_time_s, "seconds after which a row of one launch ends in any case",
            {.numbers = times_from(0)});
  flags.add("--by", options->percentile, "percentile of the step time by which a row is judged",
            {.value = "PERCENTILE", .one_of = {"p50", "p75", "p90", "p95", "p99"}});
  flags.add("--fail-on", options->fail_on,
            "exit with 3 on a regression: a row that is certainly slower, and by more than --threshold",
            {.value = "KIND", .one_of = {"regression"}});
  flags.add(
      "--keep", options->keep,
      "folder for base.json and test.json, which 'lockstep diff' reads, and for what the launches print",
      {.value = "FOLDER"});
  flags.add_switch("--force", options->force, "replace such files of an earlier comparison");
  flags.add_switch("--markdown", options->markdown, "write tables as GitHub's Markdown");
  flags.add_switch("--dry-run", options->dry_run, "print what would be compared, and stop");
  flags.add_switch("-q,--quiet", options->quiet, "print no progress and no notes");
  return [options](const Arguments& /*arguments*/) {
    if (options->quiet) set_quiet(true);
    return run_compare(*options);
  };
}

}  // namespace lockstep::cli
