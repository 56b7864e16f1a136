#include "train.h"

#include <memory>

#include <fmt/format.h>

#include <ATen/Parallel.h>

#include "lockstep/base/file.h"
#include "lockstep/base/units.h"
#include "lockstep/kernels/kernel_choice.h"
#include "lockstep/results/files/training_record.h"
#include "lockstep/topology/visible_gpus.h"
#include "lockstep/train/rows/out_of_memory.h"

#include "console.h"
#include "job_links.h"
#include "subgroups.h"
#include "version.h"

namespace lockstep::cli {
namespace {

constexpr const char* kNotEnded = "the training had not ended when this was written";
constexpr const char* kDone = "training/done";

/// What rank 0 tells: lines on stdout, and the record.
class TrainingReport {
 public:
  TrainingReport(const train::TrainingPlan& plan, std::string json_path, const RankJob& job,
                 const std::vector<std::string>& command)
      : json_path_(std::move(json_path)) {
    record_.lockstep_version = lockstep_version();
    record_.torch_version = torch_version();
    record_.host = job.machine().host;
    record_.command = command;
    record_.backend = job.options().backend;
    record_.launch = job.options().launch;
    record_.threads_per_rank = job.binding().threads_per_rank;
    record_.kernel_detail = kernels::kernel_detail(plan.row.kernels);
    for (const train::Fact& fact : train::settings_of(plan)) {
      record_.settings.emplace_back(fact.name, fact.value);
    }
    record_.incomplete = kNotEnded;
  }

  void epoch_ends(const std::vector<results::EpochRecord>& epochs) {
    if (record_.epochs.empty()) print_result(results::epochs_head());
    // Those before the training was resumed are told too.
    for (size_t i = record_.epochs.size(); i < epochs.size(); ++i) {
      print_result(results::epoch_line(epochs[i]));
    }
    record_.epochs = epochs;
    write();
  }

  void finish(const train::TrainingResult& result) {
    epoch_ends(result.epochs);
    record_.resumed_at_step = result.resumed_at_step;
    record_.parameters_hash = fmt::format("{:016x}", result.parameters_hash);
    record_.incomplete.clear();
    print_result(fmt::format("parameters {}\n", record_.parameters_hash));
    write();
  }

 private:
  void write() const {
    if (!json_path_.empty()) write_file_atomically(json_path_, results::to_json(record_));
  }

  std::string json_path_;
  results::TrainingRecord record_;
};

/// What one rank does.
void train_rank(const train::TrainingPlan& plan, const RankJob& job, const JobRank& rank,
                TrainingReport* report) {
  agree_on("train", train::facts_of(plan), job.options(), rank);
  compare_gpus(job, rank);
  const JobLinks links = connect_all(job, rank);
  const Subgroups subgroups(links, {plan.row});
  if (rank.environment.rank >= train::training_ranks(plan.row)) {
    rank.progress.begin("waiting for " + plan.row.label());
    rank.store.get(kDone, kUntilRowEnds);
  } else {
    train::TrainingPlan own = plan;
    own.row = rank.own(plan.row);
    train::TrainingResult result;
    train::with_fitting_batch(own.row, [&] {
      result = train::train(own, subgroups.of(own.row), rank.progress,
                            [&](const std::vector<results::EpochRecord>& epochs) {
                              if (report != nullptr) report->epoch_ends(epochs);
                            });
    });
    if (report != nullptr) {
      report->finish(result);
      rank.store.set(kDone, "1");
    }
  }
  links.control->barrier()->wait();
}

train::TrainingPlan make_plan(const TrainOptions& options, RankJob& job) {
  const int ranks = options.ranks ? *options.ranks : job.environment() ? job.environment()->world : 1;
  train::TrainingPlan plan = make_training_plan(options, ranks, job.options().device);
  job.plan(plan.row.ranks);
  std::vector<train::RowPlan> rows{plan.row};
  job.place_devices(rows, {plan.row.strategy});
  plan.row = rows.front();
  plan.circumstances = {{"backend", job.options().backend},
                        {"threads per rank", std::to_string(job.binding().threads_per_rank)}};
  if (const std::string detail = kernels::kernel_detail(plan.row.kernels); !detail.empty())
    plan.circumstances.push_back({"fused kernels", detail});
  if (job.on_gpus()) {
    const std::vector<topology::VisibleGpu> gpus = topology::visible_gpus();
    if (!gpus.empty()) plan.circumstances.push_back({"GPU", gpus.front().name});
  }
  return plan;
}

std::string describe(const train::TrainingPlan& plan) {
  std::string text = plan.row.label() + "\n";
  for (const auto& [name, value] : train::facts_of(plan)) text += fmt::format("  {:<24} {}\n", name, value);
  return text + fmt::format("about {} of memory per rank\n",
                            format_bytes(train::estimate_memory(plan.row).total_bytes()));
}

/// What would otherwise be found out by every rank.
void check_before_start(const train::TrainingPlan& plan, const TrainOptions& options, const RankJob& job) {
  at::set_num_threads(job.binding().threads_per_rank);
  job.check_backend();
  job.check_memory({plan.row});
  if (job.speaks() && !plan.resume_path.empty()) {
    const train::Checkpoint checkpoint = train::read_checkpoint_of(plan);
    print_note(fmt::format("going on after step {} of '{}'", checkpoint.step, plan.resume_path));
    if (const std::string changed = train::changed_circumstances(plan, checkpoint); !changed.empty()) {
      print_warning("sums may be rounded otherwise than before: " + changed,
                    "Give the same --threads and --backend for the same bits.");
    }
  }
  if (job.environment()) return;
  if (!options.json_path.empty()) check_writable(options.json_path, "--json");
  if (!options.checkpoint_path.empty()) check_writable(options.checkpoint_path, "--checkpoint");
}

}  // namespace

int run_train(const TrainOptions& options, const std::vector<std::string>& command) {
  set_quiet(options.quiet);
  try {
    RankJob job(options.job);
    const train::TrainingPlan plan = make_plan(options, job);
    if (!job.supervised()) check_before_start(plan, options, job);
    if (options.dry_run) {
      if (job.speaks()) print_result(describe(plan));
      return kExitDone;
    }
    return job.run(
        [&](const JobRank& rank) {
          std::unique_ptr<TrainingReport> report;
          if (rank.environment.rank == 0) {
            report = std::make_unique<TrainingReport>(plan, options.json_path, job, command);
          }
          train_rank(plan, job, rank, report.get());
        },
        [](const std::string& reason, const std::string& advice) {
          if (!reason.empty()) print_error(reason, advice);
        });
  } catch (const std::exception& error) {
    // The ranks of a job all refuse the same; one says so.
    if (const auto environment = launch::detect_environment(); environment && environment->rank != 0) {
      return exit_code_of(error);
    }
    throw;
  }
}

}  // namespace lockstep::cli
