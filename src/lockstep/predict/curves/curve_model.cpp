#include "lockstep/predict/curves/curve_model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <vector>

namespace lockstep::predict {

const CurvePrior kCurvePrior{.doubling = 0.234,
                             .ring = 0.381,
                             .several_gpus = 0.0114,
                             .several_nodes = 0.296,
                             .nodes_deviation = 0.169,
                             .walk = 0.448,
                             .slope = 0.174,
                             .scatter = 0.00453,
                             .scatter_of_size = 0.0346,
                             .size = -2.88,
                             .size_deviation = 1.09,
                             .half_precision = 0.832};

namespace {

/// Sizes of overhead that are tried, evenly within so many standard deviations.
constexpr int kSizes = 8;
constexpr double kSizeRange = 2.2;
/// Step time at which sizes are as the prior has them, the median of the curves that it was fitted to, and
/// the deviation of what a step costs whatever its batch; for strong scaling alone.
constexpr double kStep_s = 0.32, kFixedDeviation = 0.3;
/// Deviation of communication that a table of collectives tells.
constexpr double kTransferDeviation = 0.25;

/// A normal distribution among others, by the logarithm of its weight.
struct Part {
  double log_weight, mean, variance;
};

/// Costs of the known points and of the one to predict: a normal distribution for a given size of the
/// overhead, which each known cost narrows. `usual_size` is that of the prior.
Part learn(std::span<const CurvePoint> points, const CurvePrior& prior, double size, double usual_size) {
  const CurvePoint& first = points.front();
  const size_t count = points.size(), last = count - 1;
  std::vector<double> doublings(count), steps(count, 1), transfer(count), between(count), mean(count);
  for (size_t i = 0; i < count; ++i) {
    const double n = points[i].gpus;
    doublings[i] = std::log2(n);
    if (points[i].batch_per_gpu > 0 && first.batch_per_gpu > 0)
      steps[i] = first.batch_per_gpu / points[i].batch_per_gpu;
    if (points[i].transfer_s)
      transfer[i] = *points[i].transfer_s / (points[i].batch_per_gpu * first.cost_s());
    // Links within a node say little about those between nodes.
    if (points[i].nodes > 1) between[i] = usual_size * steps[i];
    const double ring = points[i].transfer_s ? 0 : prior.ring;
    mean[i] = 1 + transfer[i] + between[i] * prior.several_nodes +
              size * steps[i] *
                  (prior.doubling * doublings[i] + ring * 2 * (n - 1) / n + (n > 1 ? prior.several_gpus : 0));
  }
  std::vector<std::vector<double>> covariance(count, std::vector<double>(count));
  for (size_t i = 0; i < count; ++i)
    for (size_t j = 0; j < count; ++j)
      covariance[i][j] = 1 + std::pow(kFixedDeviation, 2) * (steps[i] - 1) * (steps[j] - 1) +
                         std::pow(kTransferDeviation, 2) * transfer[i] * transfer[j] +
                         std::pow(prior.nodes_deviation, 2) * between[i] * between[j] +
                         std::pow(size, 2) * steps[i] * steps[j] *
                             (std::pow(prior.walk, 2) * std::min(doublings[i], doublings[j]) +
                              std::pow(prior.slope, 2) * doublings[i] * doublings[j]);
  const double scatter = std::hypot(prior.scatter, prior.scatter_of_size * size);
  double log_likelihood = 0;
  for (size_t i = 0; i < last; ++i) {
    const double variance = covariance[i][i] + std::pow(scatter * mean[i], 2);
    const double error = points[i].cost_s() / first.cost_s() - mean[i];
    log_likelihood -= (error * error / variance + std::log(variance)) / 2;
    for (size_t j = i + 1; j < count; ++j) {
      const double gain = covariance[i][j] / variance;
      mean[j] += gain * error;
      for (size_t k = i + 1; k < count; ++k) covariance[j][k] -= gain * covariance[i][k];
    }
  }
  return {log_likelihood, mean[last], covariance[last][last] + std::pow(scatter * mean[last], 2)};
}

/// The cost below which a mixture has `probability`, by bisection of its logarithm.
double quantile(const std::vector<Part>& parts, double probability) {
  double low = std::log(1e-3), high = std::log(1e4);
  for (int step = 0; step < 40; ++step) {
    const double middle = (low + high) / 2, cost = std::exp(middle);
    double below = 0, sum = 0;
    for (const Part& part : parts) {
      const double weight = std::exp(part.log_weight - parts.front().log_weight);
      below += weight * std::erfc((part.mean - cost) / std::sqrt(2 * part.variance)) / 2;
      sum += weight;
    }
    (below < probability * sum ? low : high) = middle;
  }
  return std::exp(high);
}

}  // namespace

Forecast forecast(const Curve& curve, std::span<const CurvePoint> known, const CurvePoint& at,
                  const CurvePrior& prior) {
  const CurvePoint& first = known.front();
  std::vector<CurvePoint> points(known.begin(), known.end());
  points.push_back(at);
  const bool half = std::ranges::any_of(std::initializer_list<const char*>{"fp16", "bf16", "amp"},
                                        [&](const char* name) { return curve.precision.starts_with(name); });
  // Growth with the count and the fixed cost of a step look alike along strong scaling: known counts do not
  // tell the overhead's size, but it is so many seconds of a step.
  const bool strong = curve.is_strong();
  const double step_s = strong && first.batch_per_gpu > 0 ? first.cost_s() * first.batch_per_gpu : kStep_s;
  const double log_size = prior.size + (half ? prior.half_precision : 0) - std::log(step_s / kStep_s);
  std::vector<Part> parts;
  for (int i = 0; i < kSizes; ++i) {
    const double deviations = kSizeRange * (2.0 * i / (kSizes - 1) - 1);
    parts.push_back(
        learn(points, prior, std::exp(log_size + prior.size_deviation * deviations), std::exp(log_size)));
    parts.back().log_weight = (strong ? 0 : parts.back().log_weight) - deviations * deviations / 2;
  }
  std::ranges::sort(parts, std::greater{}, &Part::log_weight);
  const double base = at.gpus / first.cost_s();
  return {base / quantile(parts, 0.5), base / quantile(parts, 0.95), base / quantile(parts, 0.05)};
}

}  // namespace lockstep::predict
