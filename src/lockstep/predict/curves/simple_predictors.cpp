#include "lockstep/predict/curves/simple_predictors.h"

#include <algorithm>
#include <cmath>

namespace lockstep::predict {
namespace {

using Known = std::span<const CurvePoint>;

double linear(Known known, int gpus) {
  return gpus / known.front().cost_s();
}

double last_efficiency(Known known, int gpus) {
  return gpus / known.back().cost_s();
}

double last_doubling(Known known, int gpus) {
  if (known.size() < 2) return linear(known, gpus);
  const CurvePoint& before = known[known.size() - 2];
  const CurvePoint& last = known.back();
  const double doublings =
      std::log(double{1} * gpus / last.gpus) / std::log(double{1} * last.gpus / before.gpus);
  return last_efficiency(known, gpus) / std::pow(last.cost_s() / before.cost_s(), doublings);
}

/// Overhead relative to the smallest count as a multiple of `shape`, by least squares.
template <typename Shape>
double overhead(Known known, int gpus, Shape shape) {
  const CurvePoint& first = known.front();
  double products = 0, squares = 0;
  for (const CurvePoint& point : known) {
    const double x = shape(double{1} * point.gpus / first.gpus);
    products += x * (point.cost_s() / first.cost_s() - 1);
    squares += x * x;
  }
  const double slope = squares > 0 ? products / squares : 0;
  const double cost = 1 + slope * shape(double{1} * gpus / first.gpus);
  return gpus / (first.cost_s() * std::max(cost, 1e-3));
}

double logarithmic(Known known, int gpus) {
  return overhead(known, gpus, [](double growth) { return std::log2(growth); });
}

double proportional(Known known, int gpus) {
  return overhead(known, gpus, [](double growth) { return growth - 1; });
}

/// The rate as a power of the count, by least squares of the logarithms.
double power_law(Known known, int gpus) {
  if (known.size() < 2) return linear(known, gpus);
  double x_mean = 0, y_mean = 0;
  for (const CurvePoint& point : known) {
    x_mean += std::log(point.gpus) / static_cast<double>(known.size());
    y_mean += std::log(point.images_per_s) / static_cast<double>(known.size());
  }
  double products = 0, squares = 0;
  for (const CurvePoint& point : known) {
    const double x = std::log(point.gpus) - x_mean;
    products += x * (std::log(point.images_per_s) - y_mean);
    squares += x * x;
  }
  return std::exp(y_mean + products / squares * (std::log(gpus) - x_mean));
}

}  // namespace

const std::array<SimplePredictor, 6> kSimplePredictors{{{"linear", &linear},
                                                        {"last efficiency", &last_efficiency},
                                                        {"last doubling", &last_doubling},
                                                        {"log2 N", &logarithmic},
                                                        {"N - 1", &proportional},
                                                        {"power law", &power_law}}};

}  // namespace lockstep::predict
