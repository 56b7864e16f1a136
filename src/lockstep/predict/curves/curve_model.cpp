#include "lockstep/predict/curves/curve_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "lockstep/predict/curves/simple_predictors.h"

namespace lockstep::predict {
namespace {

/// The intercept; seven shapes of overhead; what a step costs whatever its batch.
constexpr size_t kTerms = 9;
constexpr size_t kFixedTerm = kTerms - 1;
using Terms = std::array<double, kTerms>;

/// The prior of each term but the intercept: mean and standard deviation at an overhead of size 1. Fitted to
/// curves.csv, each site counting as 15 curves at most (docs/predicting.md).
constexpr Terms kPriorMean{1, 0.389, 0.242, 0.0191, 0.0596, 0.0438, 0.335, 0.0474, 0.05};
constexpr Terms kPriorDeviation{1, 0.163, 0.358, 0.0732, 0.515, 0.0573, 0.210, 0.0973, 0.2};
/// Scatter of a measurement relative to its value: in any case, and for an overhead of size 1.
constexpr double kScatter = 0.0118;
constexpr double kScatterOfSize = 0.132;
/// Sizes of overhead that are tried, from the least to the most; along strong scaling, where the cost that a
/// smaller batch does not share explains most, smaller ones.
constexpr size_t kSizes = 12;
constexpr double kLeastSize = 0.004, kMostSize = 1.5;
constexpr double kLeastStrongSize = 0.002, kMostStrongSize = 0.02;
/// Weights of this model, of an overhead that grows with log2 N, and of the last efficiency in what is said.
constexpr double kOwnWeight = 0.4, kLog2Weight = 0.4, kLastWeight = 0.2;

/// Cost of each term per GPU and image, in multiples of the first known count's cost.
Terms terms_of(const CurvePoint& point, const CurvePoint& first) {
  const double n = point.gpus, nodes = point.nodes;
  const bool has_batches = point.batch_per_gpu > 0 && first.batch_per_gpu > 0;
  const double steps = has_batches ? first.batch_per_gpu / point.batch_per_gpu : 1;
  Terms terms{1,
              2 * (n - 1) / n,
              std::log2(n),
              n - 1,
              n > 1 ? 1.0 : 0.0,
              nodes > 1 ? 1.0 : 0.0,
              2 * (nodes - 1) / nodes,
              std::log2(nodes),
              0};
  for (size_t i = 1; i < kFixedTerm; ++i) terms[i] *= steps;
  terms[kFixedTerm] = steps - 1;
  return terms;
}

/// A normal distribution of the terms' weights, which each measurement narrows (recursive least squares).
class Belief {
 public:
  explicit Belief(double size) : scatter_(std::hypot(kScatter, kScatterOfSize * size)), mean_(kPriorMean) {
    for (size_t i = 0; i < kTerms; ++i) {
      const double scale = i == 0 || i == kFixedTerm ? 1 : size;
      mean_[i] *= scale;
      covariance_[i][i] = std::pow(scale * kPriorDeviation[i], 2);
    }
  }

  struct Normal {
    double mean = 0;
    double variance = 0;
  };
  /// Distribution of a measurement at `terms`.
  Normal at(const Terms& terms) const {
    Normal found;
    const Terms gain = gain_of(terms);
    for (size_t i = 0; i < kTerms; ++i) {
      found.mean += terms[i] * mean_[i];
      found.variance += terms[i] * gain[i];
    }
    found.variance += std::pow(scatter_ * found.mean, 2);
    return found;
  }

  void learn(const Terms& terms, double cost) {
    const Normal expected = at(terms);
    const Terms gain = gain_of(terms);
    const double error = cost - expected.mean;
    log_likelihood_ -= (error * error / expected.variance + std::log(expected.variance)) / 2;
    for (size_t i = 0; i < kTerms; ++i) {
      mean_[i] += gain[i] * error / expected.variance;
      for (size_t j = 0; j < kTerms; ++j) covariance_[i][j] -= gain[i] * gain[j] / expected.variance;
    }
  }

  double log_likelihood() const { return log_likelihood_; }

 private:
  Terms gain_of(const Terms& terms) const {
    Terms gain{};
    for (size_t i = 0; i < kTerms; ++i)
      for (size_t j = 0; j < kTerms; ++j) gain[i] += covariance_[i][j] * terms[j];
    return gain;
  }

  double scatter_;
  Terms mean_;
  std::array<Terms, kTerms> covariance_{};
  double log_likelihood_ = 0;
};

/// A normal distribution among others.
struct Part {
  double weight;
  Belief::Normal normal;
};

/// The cost below which a mixture has `probability`, by bisection.
double quantile(const std::vector<Part>& parts, double probability) {
  double low = 0, high = 1e4;
  for (int step = 0; step < 100; ++step) {
    const double middle = (low + high) / 2;
    double below = 0;
    for (const auto& [weight, normal] : parts)
      below += weight * std::erfc((normal.mean - middle) / std::sqrt(2 * normal.variance)) / 2;
    (below < probability ? low : high) = middle;
  }
  return high;
}

}  // namespace

Forecast forecast(const Curve& curve, std::span<const CurvePoint> known, const CurvePoint& at) {
  const CurvePoint& first = known.front();
  const double least = curve.is_strong() ? kLeastStrongSize : kLeastSize;
  const double most = curve.is_strong() ? kMostStrongSize : kMostSize;
  std::vector<Part> parts;
  std::vector<double> likelihoods;
  for (size_t i = 0; i < kSizes; ++i) {
    Belief belief(least * std::pow(most / least, static_cast<double>(i) / (kSizes - 1)));
    for (const CurvePoint& point : known)
      belief.learn(terms_of(point, first), point.cost_s() / first.cost_s());
    parts.push_back({0, belief.at(terms_of(at, first))});
    likelihoods.push_back(belief.log_likelihood());
  }
  const double likeliest = std::ranges::max(likelihoods);
  double sum = 0;
  for (size_t i = 0; i < kSizes; ++i) {
    parts[i].weight = std::exp(likelihoods[i] - likeliest);
    sum += parts[i].weight;
  }
  for (Part& part : parts) part.weight /= sum;
  const double base = at.gpus / first.cost_s(), own = base / quantile(parts, 0.5);
  double rate = own;
  if (!curve.is_strong() && known.size() > 1) {
    const auto simple = [&](size_t i) { return kSimplePredictors[i].images_per_s(known, at.gpus); };
    rate = std::pow(own, kOwnWeight) * std::pow(simple(kLog2), kLog2Weight) *
           std::pow(simple(kLastEfficiency), kLastWeight);
  }
  return {rate, rate / own * base / quantile(parts, 0.95), rate / own * base / quantile(parts, 0.05)};
}

}  // namespace lockstep::predict
