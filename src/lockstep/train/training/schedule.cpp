#include "lockstep/train/training/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/base/rule.h"

namespace lockstep::train {
namespace {

void check_warmup(const ScheduleOptions& options) {
  if (options.warmup_epochs >= 0 && options.warmup_epochs <= options.epochs) return;
  throw ConfigError(fmt::format("--warmup-epochs must lie between 0 and --epochs {}, not {:g}",
                                options.epochs, options.warmup_epochs));
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
    {"--warmup-epochs, --epochs", &check_warmup},
    {"--decay-epochs", &check_decay_epochs},
};

}  // namespace

Decay parse_decay(const std::string& name) {
  const auto found = std::ranges::find(kDecays, name);
  if (found == kDecays.end()) throw ConfigError(fmt::format("there is no schedule '{}'", name));
  return static_cast<Decay>(found - kDecays.begin());
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
