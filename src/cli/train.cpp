#include <memory>
#include <optional>

#include <fmt/format.h>

#include "lockstep/base/rule.h"
#include "lockstep/base/units.h"
#include "lockstep/kernels/kernel_choice.h"
#include "lockstep/results/files/record_json.h"
#include "lockstep/results/record/training_record.h"
#include "lockstep/results/tables/tables.h"
#include "lockstep/topology/device_map.h"
#include "lockstep/train/job/job_links.h"
#include "lockstep/train/job/kernel_trials.h"
#include "lockstep/train/job/versions.h"
#include "lockstep/train/rows/row_input.h"
#include "lockstep/train/rows/row_rules.h"
#include "lockstep/train/training/training.h"

#include "commands.h"
#include "console.h"
#include "output_files.h"
#include "shared_flags.h"

namespace lockstep::cli {
namespace {

constexpr const char* kTrainExamples = R"(Examples:
  lockstep train --model lenet5 --data data/digits --ranks 2 --epochs 10 --batch 16 --lr 0.05 --eval
      learn real images on 2 ranks; print after every epoch what share of other images is recognized
  lockstep train --model resnet18 --image-size 64 --ranks 4 --lr 0.1 --scale-lr --warmup-epochs 5
                 --schedule cosine --epochs 90
      4 times the learning rate of one rank, reached after a warm-up of 5 epochs
  lockstep train --model resnet18 --ranks 2 --epochs 20 --checkpoint r18.safetensors --checkpoint-every 500
      keep a checkpoint; the same command with --resume r18.safetensors continues from it, bit for bit
  lockstep train --model resnet18 --init weights.safetensors --epochs 3
      start with the values of a state_dict; python -m lockstep convert makes the file of what torch.save wrote
)";

/// The flags of `lockstep train`.
struct TrainOptions {
  TrainOptions() {
    sweep.common.input.clear();
    sweep.controls = false;
  }

  /// The row to train: every list has one element, or none for what the network, the device or the launcher
  /// suggests. An empty input is dataset with --data, otherwise device.
  train::SweepOptions sweep;
  /// All but what follows from the other flags: the row, its data, the decay and both numbers of steps.
  train::TrainingPlan plan;
  std::string decay = "constant";
  std::optional<int> steps_per_epoch;
  /// "epoch", or a number of steps; empty: epoch.
  std::string checkpoint_every;
  std::string json_path;
  /// Replaces an older checkpoint, and files that are no results.
  bool force = false;
  bool dry_run = false;
  bool quiet = false;
  train::JobOptions job;
};

void check_strategy(const TrainOptions& options) {
  if (options.sweep.strategies.front() != train::kAllStrategies) return;
  throw ConfigError("--strategy all is several, and a training has one", "'lockstep bench' compares them.");
}

void check_decay(const TrainOptions& options) {
  const train::ScheduleOptions &given = options.plan.schedule, usual;
  if (options.decay == "step") return;
  if (given.decay_epochs == usual.decay_epochs && given.decay_factor == usual.decay_factor) return;
  throw ConfigError(
      fmt::format("--decay-epochs and --decay-factor have no effect on --schedule {}", options.decay),
      "They are options of --schedule step.");
}

/// Checked before the row is planned; train::check_plan comes after.
constexpr Rule<TrainOptions> kTrainRules[] = {
    &check_strategy,
    [](const TrainOptions& options) {
      train::check_combines(options.sweep.strategies.front(), options.sweep.ranks.front());
    },
    &check_decay,
};

/// Steps; 0 for "epoch".
int64_t parse_every(const std::string& text) {
  if (text.empty() || text == "epoch") return 0;
  const NumberRange range = counts_up_to(kMostSteps);
  if (const std::optional<int64_t> steps = parse_whole(text, range)) return *steps;
  throw ConfigError(
      fmt::format("--checkpoint-every takes epoch, or {}, not '{}'", describe(range, true), text));
}

constexpr double kMostEpochs = 1e6;

void add_schedule_flags(Flags& flags, TrainOptions& options) {
  train::ScheduleOptions& schedule = options.plan.schedule;
  flags.begin_group("Learning rate");
  flags.add("--lr", schedule.learning_rate, "learning rate of one rank",
            {.numbers = NumberRange{.above = true}});
  flags.add_switch("--scale-lr", schedule.scale, "multiply the rate by the number of ranks");
  flags.add("--warmup-epochs", schedule.warmup_epochs,
            "epochs in which the rate rises: from --lr with --scale-lr, otherwise from 0",
            {.numbers = NumberRange{.most = kMostEpochs}});
  flags.add("--schedule", options.decay, "how the rate falls after warm-up: constant (not), step or cosine",
            {.one_of = {train::kDecays.begin(), train::kDecays.end()}});
  flags.add("--decay-epochs", schedule.decay_epochs,
            "for --schedule step: the epochs after which the rate falls",
            {.numbers = counts_up_to(kMostEpochs)});
  flags.add("--decay-factor", schedule.decay_factor,
            "for --schedule step: the factor by which the rate falls",
            {.numbers = NumberRange{.most = 1, .above = true}});
}

void add_checkpoint_flags(Flags& flags, TrainOptions& options) {
  flags.begin_group("Checkpoints");
  flags.add("--checkpoint", options.plan.checkpoint_path,
            "write all that is needed to resume to this file, a .safetensors file", {.value = "FILE"});
  flags.add("--checkpoint-every", options.checkpoint_every, "steps between checkpoints, or epoch [epoch]",
            {.value = "STEPS|epoch", .use = FlagUse{.needs = "--checkpoint"}});
  flags.add("--resume", options.plan.resume_path, "continue from this checkpoint, bit for bit",
            {.value = "FILE"});
  flags.add("--init", options.plan.init_path,
            "start with the values of this .safetensors file: a state_dict, or a checkpoint",
            {.value = "FILE"});
}

void add_train_flags(Flags& flags, TrainOptions& options) {
  const std::string group = "What to train";
  flags.set_examples(kTrainExamples);
  add_row_flags(flags, options.sweep, Rows::kOne, group, "1, or the launcher's ranks");
  add_training_flags(flags, options.sweep, Rows::kOne, group, " [dataset with --data, otherwise device]");
  flags.add("--epochs", options.plan.schedule.epochs, "epochs to train",
            {.numbers = counts_up_to(kMostEpochs)});
  flags.add("--steps-per-epoch", options.steps_per_epoch,
            "steps of an epoch [one pass over the data; without data the 4 batches of --input device]",
            {.numbers = counts_up_to(kMostSteps)});
  flags.add_switch("--eval", options.plan.evaluate, "evaluate after every epoch");
  add_schedule_flags(flags, options);
  add_checkpoint_flags(flags, options);
  add_job_flags(flags, options.job);
  flags.begin_group("Output");
  flags.add("--json", options.json_path, "write the result record to this file after every epoch",
            {.value = "FILE"});
  add_force_flag(flags, options.force);
  flags.add_switch("--dry-run", options.dry_run, "print the plan and the memory it needs, and stop");
  flags.add_switch("-q,--quiet", options.quiet, "print no notes");
}

/// The training that the flags describe, without circumstances. Throws ConfigError for one that cannot be.
train::TrainingPlan make_training_plan(const TrainOptions& asked, const train::JobSite& site) {
  TrainOptions options = asked;
  train::SweepOptions& sweep = options.sweep;
  sweep.common.device = site.options.device;
  if (sweep.ranks.empty()) sweep.ranks = {site.environment ? site.environment->world : 1};
  if (sweep.common.input.empty()) sweep.common.input = sweep.common.data.empty() ? "device" : "dataset";
  sweep.input_flags.timeout_s = site.options.timeout_s;
  require_all(kTrainRules, options);
  // With one rank the two are the same, and a sweep plans no row `independent` of one rank.
  if (results::role_of(sweep.strategies.front()) == results::Role::kControl)
    sweep.strategies = {results::kSingle};
  train::TrainingPlan plan = options.plan;
  plan.row = train::plan_rows(sweep).front();
  if (!plan.resume_path.empty() && plan.row.kernels == kernels::kAuto)
    train::take_kernels_of_checkpoint(plan);
  plan.schedule.decay = train::parse_decay(options.decay);
  const train::InputFacts input = train::look_at_input(plan.row, plan.evaluate);
  plan.steps_per_epoch = options.steps_per_epoch ? *options.steps_per_epoch : input.steps_per_epoch;
  plan.data = input.data;
  plan.checkpoint_every = parse_every(options.checkpoint_every);
  train::check_plan(plan);
  return plan;
}

/// Rank 0's report of a training: lines on stdout, and the record.
class TrainingReport {
 public:
  TrainingReport(const train::TrainingPlan& plan, std::string json_path, const train::JobPlan& job,
                 int threads_per_rank, const Arguments& command, std::vector<results::KernelTrial> trials)
      : json_path_(std::move(json_path)), evaluated_(plan.evaluate) {
    record_.lockstep_version = train::lockstep_version();
    record_.torch_version = train::torch_version();
    record_.host = job.site.machine.host;
    record_.command = command;
    record_.backend = job.site.options.backend;
    record_.launch = job.site.options.launch;
    record_.threads_per_rank = threads_per_rank;
    record_.unit = plan.row.unit;
    record_.kernel_detail = kernels::kernel_detail(plan.row.kernels, train::on_gpu(plan.row));
    record_.kernel_trials = std::move(trials);
    for (const auto& [name, value] : train::settings_of(plan)) {
      record_.settings.emplace_back(name, value);
    }
    record_.incomplete = "the training had not ended when this was written";
  }

  void epoch_ends(const std::vector<results::EpochRecord>& epochs) {
    if (record_.epochs.empty()) print_result(results::epochs_head(evaluated_, record_.unit));
    // Epochs before the training was resumed are printed too.
    for (size_t i = record_.epochs.size(); i < epochs.size(); ++i) {
      print_result(results::epoch_line(epochs[i], evaluated_));
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
  bool evaluated_;
  results::TrainingRecord record_;
};

/// Properties that may change when a training is resumed, although sums are then rounded differently.
train::Fingerprint circumstances_of(const train::JobPlan& job, int threads_per_rank,
                                    const train::RowPlan& row) {
  train::Fingerprint circumstances{{"backend", job.site.options.backend},
                                   {"threads per rank", std::to_string(threads_per_rank)}};
  const std::string kernel_detail = kernels::kernel_detail(row.kernels, train::on_gpu(row));
  if (!kernel_detail.empty()) circumstances.push_back({"fused kernels", kernel_detail});
  if (job.site.on_gpus()) {
    const std::vector<topology::VisibleGpu> gpus = topology::visible_gpus();
    if (!gpus.empty()) circumstances.push_back({"GPU", gpus.front().name});
  }
  return circumstances;
}

/// The training of one rank. `report` on rank 0 only.
void train_rank(const train::TrainingPlan& plan, const train::JobPlan& job, const train::JobRank& rank,
                TrainingReport* report) {
  train::JobLinks links(job, rank);
  links.run_row(0, [&](const train::RowPlan& row, const train::RankGroup& group) {
    // The row with this rank's GPU in it.
    train::TrainingPlan own = plan;
    own.row = row;
    own.circumstances = circumstances_of(job, rank.binding.threads_per_rank, row);
    const auto on_epoch = [&](const std::vector<results::EpochRecord>& epochs) {
      if (report != nullptr) report->epoch_ends(epochs);
    };
    const auto on_resume = [&](const train::CheckpointHead& head) {
      const std::string changed = train::changed_circumstances(own, head);
      if (report == nullptr || changed.empty()) return;
      print_warning("sums may be rounded differently than before: " + changed,
                    "The same --threads, --backend, GPU and processor give the same bits.");
    };
    const train::TrainingResult result = train::train(own, group, rank.progress, on_epoch, on_resume);
    if (report != nullptr) report->finish(result);
  });
  links.meet();
}

std::string describe(const train::TrainingPlan& plan) {
  std::string text = plan.row.label() + "\n";
  for (const auto& [name, value] : train::fingerprint_of(plan))
    text += fmt::format("  {:<24} {}\n", name, value);
  return text + fmt::format("about {} of memory per rank\n",
                            format_bytes(train::estimate_memory(plan.row).total_bytes()));
}

/// Checked up front; later every rank would report it.
void check_before_start(const train::TrainingPlan& plan, const TrainOptions& options,
                        const train::JobPlan& job) {
  train::check_backend(job);
  const std::vector<std::string> shortages = train::check_memory(job);
  if (job.site.speaks()) print_warnings(shortages, train::kShortOfMemoryAdvice);
  if (job.site.speaks() && !plan.resume_path.empty()) {
    const train::Checkpoint checkpoint = train::read_checkpoint_of(plan);
    print_note(fmt::format("resuming after step {} of '{}'", checkpoint.head().step, plan.resume_path));
  }
  // Only rank 0 writes the files; other hosts of a launcher may not see them.
  if (!job.site.speaks()) return;
  const GivenFile checkpoint{"--checkpoint", options.plan.checkpoint_path};
  refuse_stdout({{"--json", options.json_path}, checkpoint});
  std::vector<GivenFile> inputs = inputs_of(options.sweep);
  inputs.push_back({"--init", options.plan.init_path});
  check_outputs({checkpoint}, inputs);
  inputs.insert(inputs.end(), {checkpoint, {"--resume", options.plan.resume_path}});
  check_output_files({{"--json", options.json_path}}, inputs, options.force);
  check_checkpoint(checkpoint, options.plan.resume_path, options.force);
}

int run_train(const TrainOptions& options, const Arguments& command) {
  train::JobSite site = train::inspect_site(options.job);
  train::TrainingPlan plan = make_training_plan(options, site);
  const train::JobPlan job = train::plan_job(std::move(site), {plan.row}, {plan.row.strategy});
  plan.row = job.rows.front();
  if (!job.site.supervised()) check_before_start(plan, options, job);
  if (options.dry_run) {
    if (job.site.speaks()) print_result(describe(plan));
    return kExitDone;
  }
  std::vector<UniqueFd> claims;
  if (!job.site.supervised() && job.site.speaks())
    claims = claim_outputs({{"--json", options.json_path}, {"--checkpoint", options.plan.checkpoint_path}});
  return train::run_job(job,
                        [&](const train::JobRank& rank) {
                          train::agree_on("train", train::fingerprint_of(plan), job, rank);
                          train::JobPlan own_job = job;
                          const auto trials = train::choose_kernels(own_job, &rank);
                          train::TrainingPlan own = plan;
                          own.row.kernels = own_job.rows.front().kernels;
                          std::unique_ptr<TrainingReport> report;
                          if (rank.environment.rank == 0) {
                            if (!trials.empty()) print_note("kernels of " + results::trials_text(trials));
                            report = std::make_unique<TrainingReport>(own, options.json_path, own_job,
                                                                      rank.binding.threads_per_rank, command,
                                                                      trials);
                          }
                          train_rank(own, own_job, rank, report.get());
                        },
                        {print_departure, print_note, print_warning});
}

}  // namespace

RunCommand add_train(Flags& flags) {
  const auto options = std::make_shared<TrainOptions>();
  add_train_flags(flags, *options);
  return [options](const Arguments& arguments) {
    return report_once([&] {
      set_quiet(options->quiet);
      return run_train(*options, arguments);
    });
  };
}

}  // namespace lockstep::cli
