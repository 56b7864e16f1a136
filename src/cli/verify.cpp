#include "verify.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/results/tables/document.h"
#include "lockstep/train/rows/out_of_memory.h"
#include "lockstep/train/training/export_training.h"
#include "lockstep/train/verify/verify.h"

#include "console.h"
#include "job_links.h"
#include "row_flags.h"
#include "strategy_flags.h"
#include "subgroups.h"

namespace lockstep::cli {
namespace {

constexpr const char* kVerifyExamples = R"(Examples:
  lockstep verify
      every strategy on small networks, on 1, 2, 4, ... ranks
  lockstep verify --strategy replicated --model resnet18 --image-size 64 --ranks 1,2 --backend mpi
      one of them, on a network of your own choice
  lockstep verify --strategy ddp,replicated --wire bf16 --accumulate 2
      with gradients of two batches added up, and sent in 16 bits
  lockstep verify --strategy parameter_server --consistency async --ranks 2
      with an option of the strategy
  lockstep verify --device cuda --ranks 2 --share-device
      on a GPU that two ranks share

Checks: "replicas equal" (all ranks have the same parameters, bit for bit), "joint batch" (they agree with one
rank on the batches of all, as closely as rounding allows), "run to run" (the same bits again). A check that
does not apply says why. Of a strategy that applies gradients as they arrive: "applied once" (every gradient that
was sent), "staleness" (within what the steps allow), "loss falls" (on one batch). Exit code 1 when one fails.
)";

std::vector<train::RowPlan> plan_rows(const VerifyOptions& options, const std::string& device) {
  train::SweepOptions sweep;
  sweep.device = device;
  sweep.models = options.models;
  sweep.batches = {options.batch};
  sweep.ranks = options.ranks;
  sweep.strategies = options.strategies;
  sweep.kernels = options.kernels;
  sweep.bucket_mb = {options.bucket_mb};
  sweep.strategy_options = options.strategy_options;
  sweep.image_size = options.image_size;
  sweep.accumulate = options.accumulate;
  sweep.seed = options.seed;
  sweep.controls = false;
  sweep.pacing = {.warmup_steps = 0, .steps = options.steps};
  // A few steps must move the parameters by more than rounding.
  sweep.learning_rate = 0.05;
  return train::plan_rows(sweep);
}

class VerifyReport {
 public:
  /// `show_kernels`: rows differ in them.
  explicit VerifyReport(bool show_kernels) : show_kernels_(show_kernels) {
    std::vector<const char*> first{"model", "strategy"};
    if (show_kernels_) first.push_back("kernels");
    for (const char* left : first) table_.add_column({left, results::kText});
    table_.add_column("ranks");
    for (const char* left : {"check", "verdict", "how"}) table_.add_column({left, results::kText});
  }

  void add(const train::RowPlan& row, const std::vector<train::Check>& checks) {
    for (const train::Check& check : checks) {
      add_row(row, check.name, check.outcome, check.detail);
      if (check.outcome == train::Check::Outcome::kRight) ++right_;
      if (check.outcome == train::Check::Outcome::kWrong) ++wrong_;
    }
  }

  void add_left_out(const train::RowPlan& row, const std::string& reason) {
    add_row(row, "all", train::Check::Outcome::kNotApplicable, reason);
  }

  void print() const {
    print_result(results::to_text(table_));
    print_result(fmt::format("\n{} right, {} wrong\n", right_, wrong_));
  }

  int wrong() const { return wrong_; }

 private:
  void add_row(const train::RowPlan& row, const std::string& check, train::Check::Outcome outcome,
               const std::string& detail) {
    std::vector<results::Cell> cells{row.model, row.strategy};
    if (show_kernels_) cells.push_back(row.kernels);
    cells.insert(cells.end(), {std::to_string(row.ranks), check, train::outcome_text(outcome), detail});
    table_.add_row(std::move(cells));
  }

  bool show_kernels_;
  results::Table table_;
  int right_ = 0;
  int wrong_ = 0;
};

void export_row(const train::RowPlan& planned, const std::string& folder, const RankJob& job,
                const JobRank& rank) {
  const train::RowPlan row = rank.own(planned);
  agree_on("verify --export", train::facts_of({row}), job.options(), rank);
  compare_gpus(job, rank);
  const JobLinks links = connect_all(job, rank);
  rank.progress.begin(row.label());
  const Subgroups subgroups(links, {row});
  if (rank.environment.rank < train::training_ranks(row)) {
    train::export_training(row, *row.pacing.steps, subgroups.of(row), folder, rank.progress);
  }
  links.control->barrier()->wait();
}

void check_export(const VerifyOptions& options, const std::vector<train::RowPlan>& rows) {
  if (rows.size() != 1) {
    throw ConfigError(fmt::format("--export writes one training, but these flags name {}", rows.size()),
                      "Give one --model, one --strategy and one number of --ranks.");
  }
  if (!std::filesystem::is_directory(options.export_folder)) {
    throw ConfigError(fmt::format("--export: '{}' is no folder", options.export_folder), "Make it first.");
  }
}

/// What one rank does. Returns how many checks failed, in rank 0.
int verify_rows(const std::vector<train::RowPlan>& rows, const std::vector<RowLeftOut>& left_out,
                const RankJob& job, const JobRank& rank) {
  agree_on("verify", train::facts_of(rows), job.options(), rank);
  compare_gpus(job, rank);
  const JobLinks links = connect_all(job, rank);
  const Subgroups subgroups(links, rows);
  VerifyReport report(std::ranges::any_of(
      rows, [&](const train::RowPlan& row) { return row.kernels != rows.front().kernels; }));
  for (size_t i = 0; i < rows.size(); ++i) {
    const train::RowPlan row = rank.own(rows[i]);
    const std::string done = fmt::format("row/{}/done", i);
    if (rank.environment.rank >= train::training_ranks(row)) {
      rank.progress.begin("waiting for " + row.label());
      rank.store.get(done, kUntilRowEnds);
      continue;
    }
    rank.progress.begin(row.label());
    std::vector<train::Check> checks;
    train::with_fitting_batch(
        row, [&] { checks = train::verify_row(row, *row.pacing.steps, subgroups.of(row), rank.progress); });
    if (rank.environment.rank != 0) continue;
    report.add(row, checks);
    print_note(fmt::format("[{}/{}] {}", i + 1, rows.size(), row.label()));
    rank.store.set(done, "1");
  }
  links.control->barrier()->wait();
  for (const auto& [row, reason] : left_out) report.add_left_out(row, reason);
  if (rank.environment.rank == 0) report.print();
  return report.wrong();
}

}  // namespace

void add_verify_flags(CLI::App& command, VerifyOptions& options) {
  command.footer(kVerifyExamples);
  const std::string what = "What to verify (lists separated by commas)";
  command.add_option("--model", options.models, "networks")
      ->delimiter(',')
      ->capture_default_str()
      ->group(what);
  command.add_option("--strategy", options.strategies, "strategies, or all")
      ->delimiter(',')
      ->capture_default_str()
      ->group(what);
  command
      .add_option(
          "--ranks", options.ranks,
          "numbers of ranks [powers of two up to the cores, or GPUs, or to what the launcher started]")
      ->delimiter(',')
      ->group(what);
  command.add_option("--batch", options.batch, "images per rank")->capture_default_str()->group(what);
  command.add_option("--image-size", options.image_size, "height and width [the network's own]")->group(what);
  command.add_option("--steps", options.steps, "steps to train")->capture_default_str()->group(what);
  command.add_option("--kernels", options.kernels, kKernelsHelp)->delimiter(',')->group(what);
  command.add_option("--bucket-mb", options.bucket_mb, "cap of a bucket of gradients, in MiB")
      ->capture_default_str()
      ->group(what);
  command.add_option("--seed", options.seed, "of initial values and batches")
      ->capture_default_str()
      ->group(what);
  command
      .add_option("--export", options.export_folder,
                  "instead of checking, write initial and final parameters and all batches into this folder, "
                  "for another program to compare with (torch.load reads them)")
      ->type_name("FOLDER")
      ->group("Output");
  command.add_option("--accumulate", options.accumulate, "batches per rank and step")
      ->capture_default_str()
      ->group(what);
  add_strategy_flags(command, options.strategy_options);
  // What strategies compute does not depend on it, and where there is one GPU it leaves one rank.
  options.job.device = "cpu";
  add_rank_flags(command, options.job);
}

int run_verify(const VerifyOptions& asked) {
  VerifyOptions options = asked;
  std::atomic<int> wrong{0};
  RankJob job(options.job);
  if (options.ranks.empty()) options.ranks = powers_of_two_up_to(job.usual_ranks());
  std::vector<train::RowPlan> rows = plan_rows(options, job.options().device);
  job.plan(train::most_ranks(rows));
  const std::vector<RowLeftOut> left_out = job.place_devices(rows, options.strategies);
  if (!options.export_folder.empty()) check_export(options, rows);
  if (!job.supervised()) job.check_backend();
  const int code = job.run(
      [&](const JobRank& rank) {
        if (!options.export_folder.empty()) return export_row(rows[0], options.export_folder, job, rank);
        const int failed = verify_rows(rows, left_out, job, rank);
        if (rank.environment.rank == 0) wrong = failed;
      },
      [](const std::string& reason, const std::string& advice) {
        if (!reason.empty()) print_error(reason, advice);
      });
  if (code != kExitDone) return code;
  return wrong > 0 ? kExitFailed : kExitDone;
}

}  // namespace lockstep::cli
