#include "lockstep/train/training/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/base/registry.h"
#include "lockstep/base/rule.h"

namespace lockstep::train {
namespace {

const Registry<Decay>& decays() {
  static const Registry<Decay> all(
      "schedule", "lockstep train --help",
      {{"constant", Decay::kConstant}, {"step", Decay::kStep}, {"cosine", Decay::kCosine}});
  return all;
}

void check_rate(const ScheduleOptions& options) {
  if (options.learning_rate > 0 && std::isfinite(options.learning_rate)) return;
  throw ConfigError(fmt::format("--lr must be greater than 0, not {:g}", options.learning_rate));
}

void check_epochs(const ScheduleOptions& options) {
  if (options.epochs >= 1) return;
  throw ConfigError(fmt::format("--epochs must be greater than 0, not {}", options.epochs));
}

void check_warmup(const ScheduleOptions& options) {
  if (options.warmup_epochs >= 0 && options.warmup_epochs <= options.epochs) return;
  throw ConfigError(fmt::format("--warmup-epochs must lie between 0 and --epochs {}, not {:g}",
                                options.epochs, options.warmup_epochs));
}

void check_decay_factor(const ScheduleOptions& options) {
  if (options.decay_factor > 0 && options.decay_factor <= 1) return;
  throw ConfigError(
      fmt::format("--decay-factor must be greater than 0 and at most 1, not {:g}", options.decay_factor));
}

void check_decay_epochs(const ScheduleOptions& options) {
  const std::vector<int>& epochs = options.decay_epochs;
  const bool ascend = std::ranges::adjacent_find(epochs, std::greater_equal()) == epochs.end();
  if (ascend && (epochs.empty() || epochs.front() >= 1)) return;
  throw ConfigError(
      fmt::format("--decay-epochs must be ascending numbers from 1 on, not {}", fmt::join(epochs, ",")),
      "30,60,80 is the default: the rate falls after so many epochs.");
}

constexpr Rule<ScheduleOptions> kScheduleRules[] = {
    &check_rate, &check_epochs, &check_warmup, &check_decay_factor, &check_decay_epochs,
};

}  // namespace

const char* to_string(Decay decay) {
  if (decay == Decay::kStep) return "step";
  return decay == Decay::kCosine ? "cosine" : "constant";
}

Decay parse_decay(const std::string& name) {
  return decays().get(name);
}

Schedule::Schedule(const ScheduleOptions& options, int ranks, int64_t steps_per_epoch)
    : options_(options),
      steps_per_epoch_(steps_per_epoch),
      total_steps_(options.epochs * steps_per_epoch),
      start_(options.scale ? options.learning_rate : 0),
      peak_(options.learning_rate * (options.scale ? ranks : 1)) {
  require_all(kScheduleRules, options);
  if (steps_per_epoch < 1) {
    throw ConfigError(fmt::format("an epoch must have at least one step, not {}", steps_per_epoch));
  }
  warmup_steps_ = std::llround(options.warmup_epochs * static_cast<double>(steps_per_epoch));
}

double Schedule::rate(int64_t step) const {
  if (step >= warmup_steps_) return decayed(step);
  return start_ + (peak_ - start_) * static_cast<double>(step + 1) / static_cast<double>(warmup_steps_);
}

double Schedule::decayed(int64_t step) const {
  switch (options_.decay) {
    case Decay::kStep: {
      const int64_t epoch = step / steps_per_epoch_;
      const auto decays = std::ranges::count_if(options_.decay_epochs, [&](int at) { return at <= epoch; });
      return peak_ * std::pow(options_.decay_factor, static_cast<double>(decays));
    }
    case Decay::kCosine: {
      const auto done = static_cast<double>(step - warmup_steps_);
      const auto all = static_cast<double>(total_steps_ - warmup_steps_);
      return peak_ * (1 + std::cos(std::numbers::pi * done / all)) / 2;
    }
    case Decay::kConstant:
      break;
  }
  return peak_;
}

}  // namespace lockstep::train
