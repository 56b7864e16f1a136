#include "lockstep/train/training/training.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/base/rule.h"
#include "lockstep/models/model.h"
#include "lockstep/train/rows/fingerprint.h"
#include "lockstep/train/rows/gather.h"
#include "lockstep/train/rows/row_trainee.h"
#include "lockstep/train/training/evaluation.h"
#include "lockstep/train/training/tensor_file.h"

namespace lockstep::train {
namespace {

/// The largest value of all ranks. Collective.
double longest(double value, comm::Communicator* group) {
  if (group != nullptr) group->all_reduce(comm::host_buffer(&value, 1), comm::ReduceOp::kMax)->wait();
  return value;
}

/// Makes sure that all ranks have read the same step and values. Collective.
void agree_on_start(const std::vector<replica::NamedTensor>& values, int64_t step,
                    comm::Communicator* group) {
  if (group == nullptr) return;
  uint64_t hash = kEmptyHash;
  add_text(hash, std::to_string(step));
  for (const auto& [name, value] : values) {
    add_text(hash, name);
    add_text(hash, values_of(value));
  }
  if (same_on_all_ranks(hash, *group)) return;
  throw ConfigError("the ranks have read different files to start from",
                    "The path must name the same file on every host.");
}

/// One rank's part of a training.
class Training {
 public:
  Training(const TrainingPlan& plan, const RankGroup& ranks, launch::Progress& progress,
           const OnEpoch& on_epoch, const OnResume& on_resume)
      : plan_(plan),
        ranks_(ranks),
        group_(ranks.control),
        progress_(progress),
        on_epoch_(on_epoch),
        schedule_(plan.schedule, plan.row.ranks, plan.steps_per_epoch),
        settings_(settings_of(plan)) {
    if (!plan.resume_path.empty()) {
      const Checkpoint checkpoint = read_checkpoint_of(plan);
      const RankState own = checkpoint.rank(ranks.rank());
      step_ = checkpoint.head().step;
      epochs_ = checkpoint.head().epochs;
      tally_ = own.epoch;
      resumed_at_step_ = step_;
      if (on_resume) on_resume(checkpoint.head());
      make_trainee(checkpoint.model(), plan.resume_path, &own.buffers);
      trainee_->strategy().restore(own.strategy);
    } else if (!plan.init_path.empty()) {
      make_trainee(read_state_dict(plan.init_path), plan.init_path);
    } else {
      make_trainee({}, "");
    }
  }

  TrainingResult run() {
    while (step_ < end()) {
      train_until(next_stop());
      if (step_ % plan_.steps_per_epoch == 0) end_epoch();
      if (checkpoint_is_due()) write();
    }
    // Where nothing was left to train, another file than the one that was read gets the end, too.
    const bool is_other_file = plan_.checkpoint_path != plan_.resume_path;
    if (resumed_at_step_ == step_ && is_other_file && checkpoint_is_due()) write();
    return {epochs_, resumed_at_step_, trainee_->parameters_hash()};
  }

 private:
  /// Starts with the values that were read from `path`, if any, and with `buffers` of this rank's own.
  void make_trainee(const std::vector<replica::NamedTensor>& values, const std::string& path,
                    const replica::State* buffers = nullptr) {
    agree_on_start(values, step_, group_);
    const auto make_input = [&](std::shared_ptr<replica::Accelerator> accelerator) {
      std::unique_ptr<inputs::Input> input = create_input(plan_.row, ranks_.rank(), std::move(accelerator));
      // A resumed training goes on with the batch after the last one that was trained.
      input->skip(step_ * plan_.row.accumulate);
      return input;
    };
    const auto initialise = [&](replica::Parameters& parameters) {
      if (!path.empty()) load_values(values, parameters, path);
      if (buffers == nullptr) return;
      for (const auto& [name, buffer] : parameters.buffers()) buffers->copy_to(name, buffer);
    };
    trainee_.emplace(plan_.row, ranks_, nullptr,
                     TraineeStart{.initialise = initialise, .make_input = make_input});
  }

  int64_t end() const {
    return std::min(schedule_.total_steps(), plan_.stop_after.value_or(schedule_.total_steps()));
  }

  /// The end of the epoch, or the step before it that ends with a checkpoint.
  int64_t next_stop() const {
    const int64_t epoch_end = std::min(end(), (step_ / plan_.steps_per_epoch + 1) * plan_.steps_per_epoch);
    if (plan_.checkpoint_path.empty() || plan_.checkpoint_every == 0) return epoch_end;
    return std::min(epoch_end, (step_ / plan_.checkpoint_every + 1) * plan_.checkpoint_every);
  }

  bool checkpoint_is_due() const {
    if (plan_.checkpoint_path.empty()) return false;
    const int64_t every = plan_.checkpoint_every == 0 ? plan_.steps_per_epoch : plan_.checkpoint_every;
    return step_ % every == 0 || step_ == end();
  }

  void train_until(int64_t stop) {
    progress_.begin(fmt::format("{}, epoch {}", plan_.row.label(), epochs_.size() + 1));
    const RowPlan& row = plan_.row;
    const int64_t images_per_step = int64_t{row.images_per_rank_step()} * (row.ranks / training_ranks(row));
    const StepHooks hooks{
        .before_step =
            [this](int64_t steps) { trainee_->strategy().set_learning_rate(schedule_.rate(steps)); },
        .after_step =
            [this, images_per_step](double loss, int64_t hits) {
              tally_.loss_sum += loss;
              tally_.correct += hits;
              tally_.samples += images_per_step;
            },
        .counts_hits = true};
    const StepLoopResult result =
        trainee_->train_steps(static_cast<int>(stop - step_), step_, hooks, progress_);
    epoch_s_ += longest(std::accumulate(result.step_s.begin(), result.step_s.end(), 0.0), group_);
    epoch_steps_ += stop - step_;
    step_ = stop;
  }

  void end_epoch() {
    const RowPlan& row = plan_.row;
    const Tally tally = over_all_ranks(tally_, group_);
    const auto losses = static_cast<double>(plan_.steps_per_epoch) * training_ranks(row);
    results::EpochRecord epoch;
    epoch.epoch = static_cast<int>(epochs_.size()) + 1;
    epoch.steps = step_;
    epoch.learning_rate = schedule_.rate(step_ - 1);
    epoch.loss = tally.loss_sum / losses;
    if (models::info_of(row.model).file == nullptr)
      epoch.training_accuracy = static_cast<double>(tally.correct) / static_cast<double>(tally.samples);
    if (plan_.evaluate) {
      if (!evaluation_) evaluation_.emplace(row, ranks_, trainee_->accelerator());
      const Tally found = evaluation_->run(trainee_->model());
      if (!std::isfinite(found.loss_sum)) {
        throw Error(
            fmt::format("the loss of the evaluation after epoch {} is {}", epoch.epoch, found.loss_sum),
            "Try a smaller --lr, or --precision fp32.");
      }
      const auto samples = static_cast<double>(found.samples);
      epoch.evaluation_loss = found.loss_sum / samples;
      epoch.evaluation_accuracy = static_cast<double>(found.correct) / samples;
    }
    const int64_t units = epoch_steps_ * row.images_per_rank_step() * row.ranks * row.units_per_sample;
    epoch.images_per_s = static_cast<double>(units) / epoch_s_;
    epochs_.push_back(epoch);
    tally_ = {};
    epoch_s_ = 0;
    epoch_steps_ = 0;
    on_epoch_(epochs_);
  }

  void write() {
    RankState own{.buffers = {}, .strategy = {}, .epoch = tally_};
    for (const auto& [name, buffer] : trainee_->parameters().buffers()) own.buffers.add(name, buffer);
    trainee_->strategy().save(own.strategy);
    write_checkpoint(plan_.checkpoint_path,
                     {.settings = settings_,
                      .circumstances = plan_.circumstances,
                      .step = step_,
                      .epochs = epochs_,
                      .ranks = {}},
                     trainee_->parameters(), own, group_);
  }

  const TrainingPlan& plan_;
  RankGroup ranks_;
  /// Carries host memory.
  comm::Communicator* group_;
  launch::Progress& progress_;
  const OnEpoch& on_epoch_;
  Schedule schedule_;
  Fingerprint settings_;
  std::optional<RowTrainee> trainee_;
  /// Made before the first evaluation.
  std::optional<Evaluation> evaluation_;
  /// Steps and epochs completed.
  int64_t step_ = 0;
  std::vector<results::EpochRecord> epochs_;
  std::optional<int64_t> resumed_at_step_;
  /// This rank's sums over the current epoch.
  Tally tally_;
  /// Seconds and steps of the current epoch in this process, without those before it was resumed.
  double epoch_s_ = 0;
  int64_t epoch_steps_ = 0;
};

std::vector<std::string> differences_in(const Fingerprint& theirs, const Fingerprint& own) {
  std::vector<std::string> differences;
  for (const auto& [name, value] : own) {
    const auto found = std::ranges::find(theirs, name, &Property::name);
    // The file may be older than a flag that is not given here either.
    if (found == theirs.end() && (value == "off" || value == "none")) continue;
    const std::string there = found == theirs.end() ? "none" : found->value;
    if (there != value) differences.push_back(fmt::format("{} {} there, {} here", name, there, value));
  }
  for (const auto& [name, value] : theirs) {
    if (std::ranges::find(own, name, &Property::name) == own.end()) {
      differences.push_back(fmt::format("{} {} there, none here", name, value));
    }
  }
  return differences;
}

std::string or_none(const std::string& text) {
  return text.empty() ? "none" : text;
}

std::string text_of(const ScheduleOptions& schedule) {
  std::string text =
      fmt::format("{} from {}", kDecays[static_cast<size_t>(schedule.decay)], schedule.learning_rate);
  if (schedule.scale) text += " times the ranks";
  if (schedule.warmup_epochs > 0) text += fmt::format(", {} epochs of warm-up", schedule.warmup_epochs);
  if (schedule.decay == Decay::kStep) {
    text += fmt::format(", times {} after epochs {}", schedule.decay_factor,
                        fmt::join(schedule.decay_epochs, " "));
  }
  if (schedule.decay == Decay::kCosine) text += fmt::format(", over {} epochs", schedule.epochs);
  return text;
}

void check_schedule(const TrainingPlan& plan) {
  // The constructor checks the values.
  static_cast<void>(Schedule(plan.schedule, plan.row.ranks, plan.steps_per_epoch));
}

void check_evaluation(const TrainingPlan& plan) {
  if (!plan.evaluate) return;
  if (models::info_of(plan.row.model).file != nullptr) {
    throw ConfigError(
        fmt::format("--eval needs a forward pass of its own, and {} is a whole step", plan.row.model),
        "Leave --eval out.");
  }
  const std::string& input = plan.row.input;
  if (input == "device" || inputs::registry().get(input).has_data) return;
  throw ConfigError(
      fmt::format("--eval has no samples to evaluate with: no batch of the input '{}' comes again", input),
      "Leave --eval out, or train on --data FOLDER.");
}

void check_start(const TrainingPlan& plan) {
  if (plan.resume_path.empty() || plan.init_path.empty()) return;
  throw ConfigError("--resume and --init exclude each other",
                    "--resume continues a training; --init begins one with the values of a file.");
}

constexpr Rule<TrainingPlan> kPlanRules[] = {
    &check_schedule,
    [](const TrainingPlan& plan) { check_combines(plan.row.strategy, plan.row.ranks); },
    &check_evaluation,
    &check_start,
};

}  // namespace

void check_combines(const std::string& strategy, int ranks) {
  if (ranks == 1 || results::role_of(strategy) == results::Role::kStrategy) return;
  throw ConfigError(
      fmt::format("{} combines nothing: {} ranks would be {} trainings", strategy, ranks, ranks),
      "Choose ddp, or --ranks 1.");
}

void check_plan(const TrainingPlan& plan) {
  require_all(kPlanRules, plan);
}

Fingerprint settings_of(const TrainingPlan& plan) {
  // Without options that a training may be resumed with others of.
  RowPlan row = plan.row;
  std::vector<strategies::GivenOption> given = strategies::spelled_out(row.parsed_options);
  const auto only_places = [](const std::string& flag) {
    return std::ranges::any_of(strategies::option_infos(), [&](const strategies::OptionInfo& option) {
      return option.flag == flag && option.only_places;
    });
  };
  std::erase_if(given, [&](const auto& option) { return only_places(option.flag); });
  row.strategy_options = strategies::options_text(given, row.strategy);
  Fingerprint settings = training_settings_of(row);
  std::erase_if(settings, [&](const Property& property) { return only_places(property.name); });
  const auto& file = models::info_of(plan.row.model).file;
  if (file != nullptr && !file->hash.empty()) {
    // What counts is the content, wherever the file lies.
    std::ranges::find(settings, "network", &Property::name)->value = file->name;
    settings.push_back({"network file", "#" + file->hash.substr(0, 16)});
  }
  settings.push_back({"learning rate", text_of(plan.schedule)});
  settings.push_back({"steps per epoch", std::to_string(plan.steps_per_epoch)});
  settings.push_back({"data", or_none(plan.data)});
  return settings;
}

Fingerprint fingerprint_of(const TrainingPlan& plan) {
  Fingerprint fingerprint = settings_of(plan);
  fingerprint.push_back({"all options of the strategy", or_none(plan.row.strategy_options)});
  fingerprint.push_back({"--epochs", std::to_string(plan.schedule.epochs)});
  fingerprint.push_back({"--eval", plan.evaluate ? "on" : "off"});
  fingerprint.push_back({"--checkpoint", or_none(plan.checkpoint_path)});
  fingerprint.push_back({"--checkpoint-every", std::to_string(plan.checkpoint_every)});
  fingerprint.push_back({"--resume", or_none(plan.resume_path)});
  fingerprint.push_back({"--init", or_none(plan.init_path)});
  return fingerprint;
}

void take_kernels_of_checkpoint(TrainingPlan& plan) {
  const Checkpoint checkpoint(plan.resume_path);
  const Fingerprint& settings = checkpoint.head().settings;
  const auto kernels = std::ranges::find(settings, "--kernels", &Property::name);
  if (kernels != settings.end()) plan.row.kernels = kernels->value;
}

Checkpoint read_checkpoint_of(const TrainingPlan& plan) {
  Checkpoint checkpoint(plan.resume_path);
  const CheckpointHead& head = checkpoint.head();
  const std::vector<std::string> differences = differences_in(head.settings, settings_of(plan));
  if (!differences.empty()) {
    throw ConfigError(
        fmt::format("'{}' is of another training: {}", plan.resume_path, fmt::join(differences, "; ")),
        "Resume with the flags that it was written with; --init takes the values of its network alone.");
  }
  const auto ranks = static_cast<size_t>(training_ranks(plan.row));
  const int64_t total = plan.schedule.epochs * plan.steps_per_epoch;
  if (head.ranks.size() != ranks ||
      head.step / plan.steps_per_epoch != static_cast<int64_t>(head.epochs.size())) {
    throw ConfigError(fmt::format("'{}' contradicts itself: it is damaged", plan.resume_path));
  }
  if (head.step > total) {
    throw ConfigError(fmt::format("'{}' has {} steps, and {} epochs have only {}", plan.resume_path,
                                  head.step, plan.schedule.epochs, total),
                      "Give more --epochs.");
  }
  return checkpoint;
}

std::string changed_circumstances(const TrainingPlan& plan, const CheckpointHead& head) {
  return fmt::format("{}", fmt::join(differences_in(head.circumstances, plan.circumstances), "; "));
}

TrainingResult train(const TrainingPlan& plan, const RankGroup& ranks, launch::Progress& progress,
                     const OnEpoch& on_epoch, const OnResume& on_resume) {
  return Training(plan, ranks, progress, on_epoch, on_resume).run();
}

}  // namespace lockstep::train
