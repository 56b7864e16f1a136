#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::train {

enum class Decay { kConstant, kStep, kCosine };

/// "constant", "step", "cosine".
const char* to_string(Decay decay);
/// Throws ConfigError with the nearest names.
Decay parse_decay(const std::string& name);

struct ScheduleOptions {
  /// As given, for one rank.
  double learning_rate = 0.01;
  /// Multiplies it by the number of ranks (Goyal et al. 2017, the linear scaling rule).
  bool scale = false;
  /// May be a fraction.
  double warmup_epochs = 0;
  Decay decay = Decay::kConstant;
  /// kStep: the epochs before which the rate is multiplied by the factor, ascending.
  std::vector<int> decay_epochs{30, 60, 80};
  double decay_factor = 0.1;
  int epochs = 1;
};

/// The learning rate of every step of a training, a function of the step's number alone.
class Schedule {
 public:
  /// Throws ConfigError naming the flag of a value that cannot be.
  Schedule(const ScheduleOptions& options, int ranks, int64_t steps_per_epoch);

  /// Of a step, counted from 0. The rate of the training, L: the given one, or that times the number of
  /// ranks. During warm-up of W steps step i has s + (L - s)(i + 1)/W, where s is the given rate if it is
  /// scaled, otherwise 0, so that the last step of warm-up has L. `step`: L times factor to the power of the
  /// decays before the step's epoch. `cosine`: L (1 + cos(pi t / T)) / 2 in the t-th of the T steps after
  /// warm-up; it is greater than 0 in all of them.
  double rate(int64_t step) const;

  int64_t total_steps() const { return total_steps_; }

 private:
  double decayed(int64_t step) const;

  ScheduleOptions options_;
  int64_t steps_per_epoch_;
  int64_t total_steps_;
  int64_t warmup_steps_;
  double start_;
  double peak_;
};

}  // namespace lockstep::train
