#pragma once

#include "lockstep/measure/compare.h"

#include "measure/synthetic.h"

namespace lockstep::measure::synthetic {

/// The truth behind launches in turns.
struct Machine {
  /// Time of the test's launches, as a multiple of the base's.
  double factor = 1;
  /// Standard deviation of a launch as a share of its time.
  double noise = 0.01;
  /// Share by which every launch is slower than the one before it.
  double drift = 0;
  /// One launch in so many takes half as long again; 0: none.
  int outlier_every = 0;
  /// Standard deviation of a walk that launches take turns in, step by step.
  double walk = 0;
};

struct Outcome {
  Certainty certainty = Certainty::kOpen;
  Comparison last;
  size_t pairs = 0;
};

/// Takes turns as `lockstep compare` does: base, test, test, base, ...
inline Outcome take_turns(const Machine& machine, size_t most_pairs, Generator& random) {
  std::normal_distribution<double> normal;
  const LookPlan plan(most_pairs);
  double level = 0.1;
  const auto launch = [&](double factor) {
    double time = level * factor * std::exp(machine.noise * normal(random));
    if (machine.outlier_every > 0 && random() % static_cast<unsigned>(machine.outlier_every) == 0)
      time *= 1.5;
    level *= 1 + machine.drift + machine.walk * normal(random);
    return std::vector<double>{time};
  };
  std::vector<std::vector<double>> base;
  std::vector<std::vector<double>> test;
  Outcome outcome;
  while (true) {
    if (base.size() % 2 == 0) {
      base.push_back(launch(1));
      test.push_back(launch(machine.factor));
    } else {
      test.push_back(launch(machine.factor));
      base.push_back(launch(1));
    }
    if (!plan.is_look(base.size())) continue;
    outcome.last = compare(
        base, test, {.confidence = plan.confidence_of_look(base.size() == most_pairs), .paired = true});
    outcome.certainty = certainty_of(outcome.last);
    outcome.pairs = base.size();
    if (outcome.certainty != Certainty::kOpen || base.size() == most_pairs) return outcome;
  }
}

struct Rates {
  double differs_percent = 0;
  double regression_percent = 0;
  double below_percent = 0;
  /// How often the interval at the end holds the truth.
  double held_percent = 0;
  double mean_pairs = 0;
};

inline Rates rates_of(const Machine& machine, unsigned seed, int trials = 2000) {
  Generator random(seed);
  Rates rates;
  const double each = 100.0 / trials;
  for (int i = 0; i < trials; ++i) {
    const Outcome outcome = take_turns(machine, 64, random);
    rates.differs_percent += outcome.certainty == Certainty::kDiffers ? each : 0;
    rates.regression_percent += outcome.last.is_regression() ? each : 0;
    rates.below_percent += outcome.certainty == Certainty::kBelowThreshold ? each : 0;
    const Interval& interval = *outcome.last.ratio_interval;
    rates.held_percent += interval.lower <= machine.factor && machine.factor <= interval.upper ? each : 0;
    rates.mean_pairs += static_cast<double>(outcome.pairs) / trials;
  }
  return rates;
}

}  // namespace lockstep::measure::synthetic
