#pragma once

#include <vector>

#include "lockstep/predict/jobs/collective_table.h"

namespace lockstep::predict {

/// An empirical distribution with a generalized Pareto tail above its 95 % quantile, by the tail's mean and
/// variance (Hosking and Wallis 1987); the tail's shape is at most 0.4, and 0 (exponential) with few samples.
class Spread {
 public:
  /// All values are 0.
  Spread() = default;
  /// Without samples likewise.
  explicit Spread(std::vector<double> samples);

  /// The value below which a share `p` lies, 0 < p < 1.
  double quantile(double p) const;
  /// The share of values below `x`.
  double below(double x) const;
  bool is_zero() const { return sorted_.empty(); }
  /// The distribution of values `factor` times as large; the factor is not negative.
  Spread times(double factor) const;

 private:
  std::vector<double> sorted_;
  double threshold_ = 0;
  double scale_ = 0;
  double shape_ = 0;
};

/// What varies in a step's computation, as shares of it with mean 0: a rank's own part, and what all ranks of
/// a host have in common.
struct StepNoise {
  Spread rank;
  Spread host;
};

/// `count` equally probable values of the largest noise of a job's ranks: P(max <= x) = (E over a host's part
/// h of G(x - h)^per_host)^hosts.
std::vector<double> maxima(const StepNoise& noise, const Placement& placement, int count);

}  // namespace lockstep::predict
