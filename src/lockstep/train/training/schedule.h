#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::train {

enum class Decay { kConstant, kStep, kCosine };

/// Names in the order of Decay.
inline constexpr std::array kDecays{"constant", "step", "cosine"};

/// Throws ConfigError for any other name.
Decay parse_decay(const std::string& name);

struct ScheduleOptions {
  /// The rate of one rank, as given.
  double learning_rate = 0.01;
  /// Multiplies the rate by the number of ranks (Goyal et al. 2017, the linear scaling rule).
  bool scale = false;
  /// Epochs in which the rate rises; may be a fraction.
  double warmup_epochs = 0;
  Decay decay = Decay::kConstant;
  /// kStep: the rate is multiplied by decay_factor after each of these epochs, which ascend.
  std::vector<int> decay_epochs{30, 60, 80};
  double decay_factor = 0.1;
  int epochs = 1;
};

/// The learning rate of every step of a training, a function of the step's number alone.
class Schedule {
 public:
  /// Throws ConfigError that names the flag of a value out of range.
  Schedule(const ScheduleOptions& options, int ranks, int64_t steps_per_epoch);

  /// The rate in a step, counted from 0. Let L be the given rate, times the number of ranks if it is scaled.
  /// In a warm-up of W steps, step i has s + (L - s)(i + 1)/W, where s is the given rate if it is scaled and
  /// 0 otherwise, so the last step of warm-up has L. After warm-up the rate is L (constant), L times
  /// decay_factor to the number of decays before the step's epoch (step), or L (1 + cos(pi t / T)) / 2 for t
  /// = 0, ..., T - 1 in the T steps after warm-up (cosine; greater than 0 in all of them).
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
