#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <random>
#include <vector>

namespace lockstep::measure::synthetic {

using Generator = std::mt19937_64;

/// A settled series with known truth: a first-order autoregression, its marginal normal or log-normal.
struct Series {
  size_t steps = 200;
  double lag_one = 0;
  double median_s = 0.1;
  /// Standard deviation as a share of the median (normal), or of the logarithm (log-normal).
  double noise = 0.02;
  bool log_normal = false;
  /// Share of steps that take `outlier` times as long.
  double outlier_share = 0;
  double outlier = 1;

  double mean_s() const {
    const double usual_s = log_normal ? median_s * std::exp(0.5 * noise * noise) : median_s;
    return usual_s * (1 + outlier_share * (outlier - 1));
  }
  /// The median with few and slow outliers: the usual steps' quantile 0.5 / (1 - share), by the density of
  /// the normal distribution at 0.
  double median_of_all_s() const {
    const double deviations = std::sqrt(2 * std::numbers::pi) * 0.5 * outlier_share / (1 - outlier_share);
    return median_s * (log_normal ? std::exp(noise * deviations) : 1 + noise * deviations);
  }
};

inline std::vector<double> standard_normal_series(size_t steps, double lag_one, Generator& random) {
  std::normal_distribution<double> normal;
  std::vector<double> values(steps);
  const double fresh = std::sqrt(1 - lag_one * lag_one);
  double value = normal(random);
  for (double& here : values) {
    here = value;
    value = lag_one * value + fresh * normal(random);
  }
  return values;
}

inline std::vector<double> draw(const Series& series, Generator& random) {
  std::vector<double> values = standard_normal_series(series.steps, series.lag_one, random);
  for (double& value : values) {
    const double factor = series.log_normal ? std::exp(series.noise * value) : 1 + series.noise * value;
    // A step takes some time, however wide the normal noise.
    value = series.median_s * std::max(factor, 0.01);
    if (series.outlier_share > 0 && std::bernoulli_distribution(series.outlier_share)(random))
      value *= series.outlier;
  }
  return values;
}

/// Warm-up that takes `factor` times as long for `steps` steps and then ends at once.
inline void add_step_warmup(std::vector<double>& step_s, size_t steps, double factor) {
  for (size_t i = 0; i < steps && i < step_s.size(); ++i) step_s[i] *= factor;
}

/// Warm-up that adds `share` of `median_s` and decays with the time constant `decay` in steps.
inline void add_decaying_warmup(std::vector<double>& step_s, double median_s, double share, double decay) {
  for (size_t i = 0; i < step_s.size(); ++i) {
    step_s[i] += median_s * share * std::exp(-static_cast<double>(i) / decay);
  }
}

/// Launches whose level is off by a normal share of it.
struct Launches {
  size_t launches = 5;
  size_t steps = 50;
  double median_s = 0.1;
  double step_noise = 0.02;
  double launch_noise = 0.01;
  double lag_one = 0;
};

inline std::vector<std::vector<double>> draw(const Launches& plan, Generator& random) {
  std::normal_distribution<double> normal;
  std::vector<std::vector<double>> launches;
  for (size_t i = 0; i < plan.launches; ++i) {
    const double level = plan.median_s * (1 + plan.launch_noise * normal(random));
    launches.push_back(draw(Series{plan.steps, plan.lag_one, level, plan.step_noise, false}, random));
  }
  return launches;
}

}  // namespace lockstep::measure::synthetic
