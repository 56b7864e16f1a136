#include "train_options.h"

#include <charconv>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/rule.h"
#include "lockstep/train/rows/row_input.h"

#include "shared_flags.h"

namespace lockstep::cli {
namespace {

constexpr const char* kTrainExamples = R"(Examples:
  lockstep train --model lenet5 --data data/digits --ranks 2 --epochs 10 --batch 16 --lr 0.05 --eval
      learn real images on 2 ranks; print after every epoch what share of other images is recognized
  lockstep train --model resnet18 --image-size 64 --ranks 4 --lr 0.1 --scale-lr --warmup-epochs 5
                 --schedule cosine --epochs 90
      4 times the learning rate of one rank, reached after a warm-up of 5 epochs
  lockstep train --model resnet18 --ranks 2 --epochs 20 --checkpoint r18.pt --checkpoint-every 500
      keep a checkpoint; the same command with --resume r18.pt continues from it, bit for bit
  lockstep train --model resnet18 --init weights.pt --epochs 3
      start with the values of a state_dict that Python saved
)";

void check_strategy(const TrainOptions& options) {
  if (options.sweep.strategies.front() != "all") return;
  throw ConfigError("--strategy all is several, and a training has one", "'lockstep bench' compares them.");
}

void check_combines(const TrainOptions& options) {
  const std::string& strategy = options.sweep.strategies.front();
  const int ranks = options.sweep.ranks.front();
  if (ranks <= 1 || results::role_of(strategy) == results::Role::kStrategy) return;
  throw ConfigError(
      fmt::format("{} combines nothing: {} ranks would be {} trainings", strategy, ranks, ranks),
      "Choose ddp, or --ranks 1.");
}

void check_checkpoint_flags(const TrainOptions& options) {
  if (!options.checkpoint_path.empty() || options.checkpoint_every.empty()) return;
  throw ConfigError("--checkpoint-every means nothing without --checkpoint FILE");
}

/// Checked before the row is planned; train::check_plan comes after.
constexpr Rule<TrainOptions> kTrainRules[] = {
    {"--strategy", &check_strategy},
    {"--strategy, --ranks", &check_combines},
    {"--checkpoint-every, --checkpoint", &check_checkpoint_flags},
};

/// Steps; 0 for "epoch".
int64_t parse_every(const std::string& text) {
  if (text.empty() || text == "epoch") return 0;
  int64_t steps = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), steps);
  if (error != std::errc() || end != text.data() + text.size() || steps < 1) {
    throw ConfigError(fmt::format("--checkpoint-every takes a number of steps or 'epoch', not '{}'", text));
  }
  return steps;
}

void add_schedule_flags(Flags& flags, TrainOptions& options) {
  train::ScheduleOptions& schedule = options.schedule;
  flags.begin_group("Learning rate");
  flags.add("--lr", schedule.learning_rate, "learning rate of one rank");
  flags.add_switch("--scale-lr", schedule.scale, "multiply the rate by the number of ranks");
  flags.add("--warmup-epochs", schedule.warmup_epochs,
            "epochs in which the rate rises: from --lr with --scale-lr, otherwise from 0");
  flags.add("--schedule", options.decay, "how the rate falls after warm-up: constant (not), step or cosine");
  flags.add("--decay-epochs", schedule.decay_epochs,
            "for --schedule step: the epochs after which the rate falls");
  flags.add("--decay-factor", schedule.decay_factor,
            "for --schedule step: the factor by which the rate falls");
}

void add_checkpoint_flags(Flags& flags, TrainOptions& options) {
  flags.begin_group("Checkpoints");
  flags.add("--checkpoint", options.checkpoint_path,
            "write all that is needed to resume to this file, which torch.load reads", {.value = "FILE"});
  flags.add("--checkpoint-every", options.checkpoint_every, "steps between checkpoints, or epoch [epoch]",
            {.value = "STEPS|epoch"});
  flags.add("--resume", options.resume_path, "continue from this checkpoint, bit for bit", {.value = "FILE"});
  flags.add("--init", options.init_path,
            "start with the values of this state_dict, which Python's torch.save wrote, or of a checkpoint",
            {.value = "FILE"});
}

}  // namespace

TrainOptions::TrainOptions() {
  sweep.common.input.clear();
  sweep.controls = false;
}

void add_train_flags(Flags& flags, TrainOptions& options) {
  const std::string group = "What to train";
  flags.set_examples(kTrainExamples);
  add_row_flags(flags, options.sweep, Rows::kOne, group, "1, or the launcher's ranks");
  add_training_flags(flags, options.sweep, Rows::kOne, group, " [dataset with --data, otherwise device]");
  flags.add("--epochs", options.schedule.epochs, "epochs to train");
  flags.add("--steps-per-epoch", options.steps_per_epoch,
            "steps of an epoch [one pass over the data; without data the 4 batches of --input device]");
  flags.add_switch("--eval", options.evaluate, "evaluate after every epoch");
  add_schedule_flags(flags, options);
  add_checkpoint_flags(flags, options);
  add_job_flags(flags, options.job);
  flags.begin_group("Output");
  flags.add("--json", options.json_path, "write the result record to this file after every epoch",
            {.value = "FILE"});
  flags.add_switch("--dry-run", options.dry_run, "print the plan and the memory it needs, and stop");
  flags.add_switch("-q,--quiet", options.quiet, "print no notes");
}

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
  train::TrainingPlan plan;
  plan.row = train::plan_rows(sweep).front();
  plan.schedule = options.schedule;
  plan.schedule.decay = train::parse_decay(options.decay);
  plan.evaluate = options.evaluate;
  const train::InputFacts input = train::look_at_input(plan.row, plan.evaluate);
  plan.steps_per_epoch = options.steps_per_epoch ? *options.steps_per_epoch : input.steps_per_epoch;
  plan.data = input.data;
  plan.checkpoint_path = options.checkpoint_path;
  plan.checkpoint_every = parse_every(options.checkpoint_every);
  plan.resume_path = options.resume_path;
  plan.init_path = options.init_path;
  train::check_plan(plan);
  return plan;
}

}  // namespace lockstep::cli
