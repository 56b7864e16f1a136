#include "train_options.h"

#include <charconv>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/train/rows/row_input.h"

#include "row_flags.h"
#include "strategy_flags.h"

namespace lockstep::cli {
namespace {

constexpr const char* kTrainExamples = R"(Examples:
  lockstep train --model lenet5 --data data/digits --ranks 2 --epochs 10 --batch 16 --lr 0.05 --eval
      learn real images on 2 ranks, and say after every epoch how many others are recognised
  lockstep train --model resnet18 --image-size 64 --ranks 4 --lr 0.1 --scale-lr --warmup-epochs 5
                 --schedule cosine --epochs 90
      the rate of one rank times 4, after 5 epochs in which it rises
  lockstep train --model resnet18 --ranks 2 --epochs 20 --checkpoint r18.pt --checkpoint-every 500
      keep what it takes to go on; with --resume r18.pt added it does, to the same bits
  lockstep train --model resnet18 --init weights.pt --epochs 3
      begin with a state_dict that Python has saved
)";

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

void add_schedule_flags(CLI::App& command, TrainOptions& options) {
  const std::string how = "Learning rate";
  train::ScheduleOptions& schedule = options.schedule;
  command.add_option("--lr", schedule.learning_rate, "of one rank")->capture_default_str()->group(how);
  command.add_flag("--scale-lr", schedule.scale, "multiply it by the number of ranks")->group(how);
  command
      .add_option("--warmup-epochs", schedule.warmup_epochs,
                  "epochs in which it rises: from --lr with --scale-lr, otherwise from 0")
      ->capture_default_str()
      ->group(how);
  command.add_option("--schedule", options.decay, "constant, step or cosine: how it falls after warm-up")
      ->capture_default_str()
      ->group(how);
  command.add_option("--decay-epochs", schedule.decay_epochs, "step: the epochs after which it falls")
      ->delimiter(',')
      ->capture_default_str()
      ->group(how);
  command.add_option("--decay-factor", schedule.decay_factor, "step: what it is multiplied by then")
      ->capture_default_str()
      ->group(how);
  add_optimizer_flags(command, options.sweep, how);
}

void add_checkpoint_flags(CLI::App& command, TrainOptions& options) {
  const std::string keep = "Checkpoints";
  command
      .add_option("--checkpoint", options.checkpoint_path,
                  "write here what it takes to go on; torch.load reads it")
      ->type_name("FILE")
      ->group(keep);
  command
      .add_option("--checkpoint-every", options.checkpoint_every,
                  "after so many steps, or after every epoch [epoch]")
      ->type_name("STEPS|epoch")
      ->group(keep);
  command.add_option("--resume", options.resume_path, "go on from this checkpoint, to the same bits")
      ->type_name("FILE")
      ->group(keep);
  command
      .add_option("--init", options.init_path,
                  "begin with the values of this state_dict, of Python's torch.save or a checkpoint's")
      ->type_name("FILE")
      ->group(keep);
}

}  // namespace

void add_train_flags(CLI::App& command, TrainOptions& options) {
  train::SweepOptions& sweep = options.sweep;
  command.footer(kTrainExamples);
  const std::string what = "What to train";
  command.add_option("--model", options.model, "the network; 'lockstep info models' lists them")
      ->capture_default_str()
      ->group(what);
  command
      .add_option(
          "--input", options.input,
          "where batches come from; 'lockstep info inputs' lists them [dataset with --data, else device]")
      ->group(what);
  command.add_option("--strategy", options.strategy, "how replicas are kept in step")
      ->capture_default_str()
      ->group(what);
  command.add_option("--ranks", options.ranks, "number of ranks [1, or what the launcher started]")
      ->group(what);
  command.add_option("--batch", options.batch, "images per rank [the network's default]")->group(what);
  command.add_option("--global-batch", options.global_batch, "images of all ranks together, instead")
      ->group(what);
  command.add_option("--epochs", options.schedule.epochs, "epochs to train")
      ->capture_default_str()
      ->group(what);
  command
      .add_option("--steps-per-epoch", options.steps_per_epoch,
                  "steps of an epoch [one pass over the data; without data the 4 batches of 'device']")
      ->group(what);
  command.add_flag("--eval", options.evaluate, "evaluate after every epoch")->group(what);
  command
      .add_option("--precision", options.precision,
                  "fp32, bf16 (autocast); on a GPU also tf32, bf16_pure and fp16")
      ->capture_default_str()
      ->group(what);
  command.add_option("--kernels", options.kernels, kKernelsHelp)->group(what);
  command.add_option("--bucket-mb", options.bucket_mb, "cap of a bucket of gradients, in MiB")
      ->capture_default_str()
      ->group(what);
  add_step_flags(command, sweep, what);
  add_input_flags(command, sweep, what);
  add_schedule_flags(command, options);
  add_strategy_flags(command, sweep.strategy_options);
  add_checkpoint_flags(command, options);
  add_rank_flags(command, options.job);
  const std::string output = "Output";
  command.add_option("--json", options.json_path, "write the result record here, after every epoch")
      ->type_name("FILE")
      ->group(output);
  command.add_flag("--dry-run", options.dry_run, "print the plan and the memory it takes, and stop")
      ->group(output);
  command.add_flag("-q,--quiet", options.quiet, "no notes")->group(output);
}

train::TrainingPlan make_training_plan(const TrainOptions& options, int ranks, const std::string& device) {
  if (options.strategy == "all") {
    throw ConfigError("--strategy all is several, and a training has one", "'lockstep bench' compares them.");
  }
  train::SweepOptions sweep = options.sweep;
  sweep.device = device;
  sweep.input = !options.input.empty() ? options.input : sweep.data.empty() ? "device" : "dataset";
  sweep.input_flags.timeout_s = options.job.timeout_s;
  sweep.models = {options.model};
  sweep.strategies = {options.strategy};
  sweep.precisions = {options.precision};
  if (!options.kernels.empty()) sweep.kernels = {options.kernels};
  sweep.bucket_mb = {options.bucket_mb};
  sweep.ranks = {ranks};
  if (options.batch) sweep.batches = {*options.batch};
  if (options.global_batch) sweep.global_batches = {*options.global_batch};
  sweep.controls = false;
  if (ranks > 1 && (options.strategy == "single" || options.strategy == "independent")) {
    throw ConfigError(
        fmt::format("{} combines nothing: {} ranks would be {} trainings", options.strategy, ranks, ranks),
        "Choose ddp, or --ranks 1.");
  }
  // Of one rank the two are the same.
  if (options.strategy == "independent") sweep.strategies = {"single"};
  if (options.checkpoint_path.empty() && !options.checkpoint_every.empty()) {
    throw ConfigError("--checkpoint-every means nothing without --checkpoint FILE");
  }
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
