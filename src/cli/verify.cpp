#include "lockstep/train/verify/verify.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <ranges>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/base/rule.h"
#include "lockstep/kernels/kernel_choice.h"
#include "lockstep/models/model.h"
#include "lockstep/results/tables/document.h"
#include "lockstep/train/job/job_links.h"
#include "lockstep/train/training/export_training.h"

#include "commands.h"
#include "console.h"
#include "shared_flags.h"

namespace lockstep::cli {
namespace {

constexpr const char* kVerifyExamples = R"(Examples:
  lockstep verify
      every strategy on small networks, on 1, 2, 4, ... ranks
  lockstep verify --strategy replicated --model resnet18 --image-size 64 --ranks 1,2 --backend mpi
      one of them, on a network of your choice
  lockstep verify --strategy ddp,replicated --wire bf16 --accumulate 2
      with the gradients of two batches summed, and sent in 16 bits
  lockstep verify --strategy parameter_server --consistency async --ranks 2
      with an option of the strategy
  lockstep verify --device cuda --ranks 2 --share-device
      on a GPU that two ranks share

Checks: "replicas equal" (all ranks have the same parameters, bit for bit), "joint batch" (they agree with one
rank on the batches of all, as closely as rounding allows), "run to run" (the same bits again), with local_sgd
"ranks in turn" (one rank trains each replica and combines them). A check that does not apply says why. A strategy that applies gradients as they arrive is checked for "applied once" (every
gradient that was sent), "sum of updates" (the parameters moved by all of them), "staleness" (within what the
steps allow) and "loss falls" (on one batch).
The exit code is 1 when a check fails.
)";

struct VerifyOptions {
  VerifyOptions() {
    sweep.models = {"mlp", "lenet5"};
    sweep.strategies = {train::kAllStrategies};
    sweep.batches = {4};
    sweep.controls = false;
    // A few steps must move the parameters by more than rounding.
    sweep.common.learning_rate = 0.05;
    // The result of a strategy does not depend on the device, and auto would leave one rank if there is one
    // GPU.
    job.device = "cpu";
  }

  train::SweepOptions sweep;
  int steps = 5;
  /// Folder for values and batches, written for another program in place of the checks.
  std::string export_folder;
  bool force = false;
  train::JobOptions job;
};

/// The checks of all rows, in order.
using RowChecks = std::vector<std::pair<train::RowPlan, train::Check>>;

int count(const RowChecks& checks, train::Check::Outcome outcome) {
  return static_cast<int>(std::ranges::count(checks | std::views::values, outcome, &train::Check::outcome));
}

/// `show_kernels`: the rows differ in their kernels.
void print_checks(const RowChecks& checks, bool show_kernels) {
  results::Table table;
  for (const char* left : {"model", "strategy"}) table.add_column({left, results::kText});
  if (show_kernels) table.add_column({"kernels", results::kText});
  table.add_column("ranks");
  for (const char* left : {"check", "verdict", "how"}) table.add_column({left, results::kText});
  for (const auto& [row, check] : checks) {
    const bool plain = row.strategy_options.empty();
    std::vector<results::Cell> cells{row.model,
                                     plain ? row.strategy : row.strategy + " " + row.strategy_options};
    if (show_kernels) cells.push_back(row.kernels);
    cells.insert(cells.end(),
                 {std::to_string(row.ranks), check.name, train::outcome_text(check.outcome), check.detail});
    table.add_row(std::move(cells));
  }
  print_result(results::to_text(table));
  print_result(fmt::format("\n{} right, {} wrong\n", count(checks, train::Check::Outcome::kRight),
                           count(checks, train::Check::Outcome::kWrong)));
}

void export_row(const std::string& folder, const train::JobPlan& job, const train::JobRank& rank) {
  train::agree_on("verify --export", train::fingerprint_of(job.rows), job, rank);
  train::JobLinks links(job, rank);
  links.run_row(0, [&](const train::RowPlan& row, const train::RankGroup& group) {
    train::export_training(row, *row.pacing.steps, group, folder, rank.progress);
  });
  links.meet();
}

/// The work of one rank. Returns the number of failed checks on rank 0.
int verify_rows(const train::JobPlan& job, const train::JobRank& rank) {
  train::agree_on("verify", train::fingerprint_of(job.rows), job, rank);
  train::JobLinks links(job, rank);
  RowChecks all;
  for (size_t i = 0; i < job.rows.size(); ++i) {
    links.run_row(i, [&](const train::RowPlan& row, const train::RankGroup& group) {
      for (train::Check& check : train::verify_row(row, *row.pacing.steps, group, rank.progress))
        all.emplace_back(row, std::move(check));
      if (rank.environment.rank != 0) return;
      print_note(fmt::format("[{}/{}] {}", i + 1, job.rows.size(), row.label()));
    });
  }
  links.meet();
  if (rank.environment.rank != 0) return 0;
  for (const auto& [row, reason] : job.left_out)
    all.emplace_back(row, train::Check{"all", train::Check::Outcome::kNotApplicable, reason});
  print_checks(all, std::ranges::any_of(job.rows, [&](const train::RowPlan& row) {
                 return row.kernels != job.rows.front().kernels;
               }));
  return count(all, train::Check::Outcome::kWrong);
}

void check_one_training(const VerifyOptions& options, const train::JobPlan& job) {
  if (options.export_folder.empty() || job.rows.size() == 1) return;
  throw ConfigError(fmt::format("--export writes one training, but these flags name {}", job.rows.size()),
                    "Give one --model, one --strategy and one number of --ranks.");
}

void check_export_folder(const VerifyOptions& options, const train::JobPlan& /*job*/) {
  if (options.export_folder.empty()) return;
  if (!std::filesystem::is_directory(options.export_folder))
    throw ConfigError(fmt::format("--export: '{}' is not a folder", options.export_folder), "Make it first.");
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator(options.export_folder, unreadable)) {
    const std::string name = entry.path().filename();
    const bool exported = name == "initial.safetensors" || name == "final.safetensors" ||
                          (name.starts_with("batches.") && name.ends_with(".safetensors"));
    if (options.force || !exported) continue;
    throw ConfigError(
        fmt::format("--export: '{}' is there already, and would be lost", entry.path().string()),
        "Choose another folder, or add --force to replace it.");
  }
}

void check_ranks_of_single(const VerifyOptions& options, const train::JobPlan& /*job*/) {
  const auto& [strategies, ranks] = std::tie(options.sweep.strategies, options.sweep.ranks);
  if (std::ranges::find(strategies, results::kSingle) == strategies.end()) return;
  if (std::ranges::find(ranks, 1) != ranks.end()) return;
  throw ConfigError(fmt::format("--strategy single trains on one rank, and --ranks {} leaves that out",
                                fmt::join(ranks, ",")),
                    "Add 1 to --ranks, or choose another strategy.");
}

constexpr Rule<VerifyOptions, train::JobPlan> kVerifyRules[] = {
    &check_ranks_of_single,
    &check_one_training,
    &check_export_folder,
};

int run_verify(const VerifyOptions& asked) {
  VerifyOptions options = asked;
  train::SweepOptions& sweep = options.sweep;
  train::JobSite site = train::inspect_site(options.job);
  sweep.common.device = site.options.device;
  if (sweep.ranks.empty()) sweep.ranks = site.usual_ranks();
  sweep.pacing = {.warmup_steps = 0, .steps = options.steps};
  std::vector<train::RowPlan> rows = train::plan_rows(sweep);
  // A proof is not about speed, and has the same kernels every time.
  for (train::RowPlan& row : rows) {
    if (row.kernels == kernels::kAuto) row.kernels = kernels::default_kernels();
  }
  const train::JobPlan job = train::plan_job(std::move(site), std::move(rows), sweep.strategies);
  require_all(kVerifyRules, options, job);
  if (!job.site.supervised()) train::check_backend(job);
  std::atomic<int> wrong{0};
  const int code = train::run_job(job,
                                  [&](const train::JobRank& rank) {
                                    if (!options.export_folder.empty())
                                      return export_row(options.export_folder, job, rank);
                                    const int failed = verify_rows(job, rank);
                                    if (rank.environment.rank == 0) wrong = failed;
                                  },
                                  {print_departure, print_note, print_warning});
  if (code != kExitDone) return code;
  return wrong > 0 ? kExitFailed : kExitDone;
}

}  // namespace

RunCommand add_verify(Flags& flags) {
  const auto options = std::make_shared<VerifyOptions>();
  const std::string group = "What to verify (lists separated by commas)";
  flags.set_examples(kVerifyExamples);
  add_row_flags(flags, options->sweep, Rows::kSweep, group,
                "powers of two up to the cores, or GPUs, or the launcher's ranks");
  flags.begin_group(group);
  flags.add("--steps", options->steps, "steps to train in each check", {.numbers = counts_up_to(1000)});
  flags.begin_group("Output");
  flags.add(
      "--export", options->export_folder,
      "in place of the checks, write the initial and final parameters and all batches to this folder, for "
      "another program to compare with, as .safetensors files",
      {.value = "FOLDER"});
  flags.add_switch("--force", options->force, "replace the files of an earlier --export");
  add_job_flags(flags, options->job);
  return [options, &flags](const Arguments& /*arguments*/) {
    // A network from a file has the batches that it was exported with.
    const bool from_file = std::ranges::any_of(options->sweep.models, models::is_from_file);
    if (from_file && !flags.given("--batch")) options->sweep.batches.clear();
    return report_once([&] { return run_verify(*options); });
  };
}

}  // namespace lockstep::cli
