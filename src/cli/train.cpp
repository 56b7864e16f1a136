#include <memory>

#include <fmt/format.h>

#include "lockstep/base/file.h"
#include "lockstep/base/units.h"
#include "lockstep/kernels/kernel_choice.h"
#include "lockstep/results/files/training_record.h"
#include "lockstep/topology/visible_gpus.h"
#include "lockstep/train/job/job_links.h"
#include "lockstep/train/job/versions.h"

#include "commands.h"
#include "console.h"
#include "train_options.h"

namespace lockstep::cli {
namespace {

constexpr const char* kNotEnded = "the training had not ended when this was written";

/// Rank 0's report of a training: lines on stdout, and the record.
class TrainingReport {
 public:
  TrainingReport(const train::TrainingPlan& plan, std::string json_path, const train::JobPlan& job,
                 const Arguments& command)
      : json_path_(std::move(json_path)) {
    record_.lockstep_version = train::lockstep_version();
    record_.torch_version = train::torch_version();
    record_.host = job.site.machine.host;
    record_.command = command;
    record_.backend = job.site.options.backend;
    record_.launch = job.site.options.launch;
    record_.threads_per_rank = job.binding.threads_per_rank;
    record_.kernel_detail = kernels::kernel_detail(plan.row.kernels);
    for (const train::Property& fact : train::settings_of(plan)) {
      record_.settings.emplace_back(fact.name, fact.value);
    }
    record_.incomplete = kNotEnded;
  }

  void epoch_ends(const std::vector<results::EpochRecord>& epochs) {
    if (record_.epochs.empty()) print_result(results::epochs_head());
    // Epochs before the training was resumed are printed too.
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

/// The work of one rank. `report` on rank 0 only.
void train_rank(const train::TrainingPlan& plan, const train::JobPlan& job, const train::JobRank& rank,
                TrainingReport* report) {
  train::agree_on("train", train::fingerprint_of(plan), job, rank);
  train::JobLinks links(job, rank);
  links.run_row(0, [&](const train::RowPlan& row, const train::RankGroup& group) {
    train::TrainingPlan own = plan;
    own.row = row;
    const train::TrainingResult result =
        train::train(own, group, rank.progress, [&](const std::vector<results::EpochRecord>& epochs) {
          if (report != nullptr) report->epoch_ends(epochs);
        });
    if (report != nullptr) report->finish(result);
  });
  links.meet();
}

/// Properties that may change when a training is resumed, although sums are then rounded differently.
train::Fingerprint circumstances_of(const train::JobPlan& job, const std::string& kernel_detail) {
  train::Fingerprint facts{{"backend", job.site.options.backend},
                           {"threads per rank", std::to_string(job.binding.threads_per_rank)}};
  if (!kernel_detail.empty()) facts.push_back({"fused kernels", kernel_detail});
  if (job.site.on_gpus()) {
    const std::vector<topology::VisibleGpu> gpus = topology::visible_gpus();
    if (!gpus.empty()) facts.push_back({"GPU", gpus.front().name});
  }
  return facts;
}

std::string describe(const train::TrainingPlan& plan) {
  std::string text = plan.row.label() + "\n";
  for (const auto& [name, value] : train::fingerprint_of(plan))
    text += fmt::format("  {:<24} {}\n", name, value);
  return text + fmt::format("about {} of memory per rank\n",
                            format_bytes(train::estimate_memory(plan.row).total_bytes()));
}

/// Checked once, before the ranks start and each of them reports it.
void check_before_start(const train::TrainingPlan& plan, const TrainOptions& options,
                        const train::JobPlan& job) {
  train::check_backend(job);
  train::check_memory(job);
  if (job.site.speaks() && !plan.resume_path.empty()) {
    const train::Checkpoint checkpoint = train::read_checkpoint_of(plan);
    print_note(fmt::format("resuming after step {} of '{}'", checkpoint.step, plan.resume_path));
    if (const std::string changed = train::changed_circumstances(plan, checkpoint); !changed.empty()) {
      print_warning("sums may be rounded differently than before: " + changed,
                    "Give the same --threads and --backend for the same bits.");
    }
  }
  if (job.site.environment) return;
  if (!options.json_path.empty()) check_writable(options.json_path, "--json");
  if (!options.checkpoint_path.empty()) check_writable(options.checkpoint_path, "--checkpoint");
}

int run_train(const TrainOptions& options, const Arguments& command) {
  train::JobSite site = train::inspect_site(options.job);
  train::TrainingPlan plan = make_training_plan(options, site);
  const train::JobPlan job = train::plan_job(std::move(site), {plan.row}, {plan.row.strategy});
  plan.row = job.rows.front();
  plan.circumstances = circumstances_of(job, kernels::kernel_detail(plan.row.kernels));
  if (!job.site.supervised()) check_before_start(plan, options, job);
  if (options.dry_run) {
    if (job.site.speaks()) print_result(describe(plan));
    return kExitDone;
  }
  return train::run_job(
      job,
      [&](const train::JobRank& rank) {
        std::unique_ptr<TrainingReport> report;
        if (rank.environment.rank == 0) {
          report = std::make_unique<TrainingReport>(plan, options.json_path, job, command);
        }
        train_rank(plan, job, rank, report.get());
      },
      print_departure);
}

}  // namespace

RunCommand add_train(Flags& flags) {
  const auto options = std::make_shared<TrainOptions>();
  add_train_flags(flags, *options);
  return [options](const Arguments& arguments) {
    return with_one_voice([&] {
      set_quiet(options->quiet);
      return run_train(*options, arguments);
    });
  };
}

}  // namespace lockstep::cli
