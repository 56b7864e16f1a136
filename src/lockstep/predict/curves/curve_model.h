#pragma once

#include <array>
#include <span>
#include <utility>

#include "lockstep/predict/curves/curve.h"

namespace lockstep::predict {

/// Beliefs about a job's overhead before any of its counts is known. Overheads are relative to the
/// first known cost, at an overhead of size 1 (docs/predicting.md).
struct CurvePrior {
  /// Mean overhead of a doubling of the GPUs, of a ring's bytes, of more GPUs than one.
  double doubling, ring, several_gpus;
  /// Standard deviations: of what each doubling adds on its own, and of what all doublings add alike.
  double walk, slope;
  /// Scatter of a measurement relative to its value: in any case, and for an overhead of size 1.
  double scatter, scatter_of_size;
  /// Logarithm of the size of the overhead: mean, standard deviation, and what 16-bit floats add.
  double size, size_deviation, half_precision;
  /// Nodes: what each doubling of them adds to an overhead of the usual size, and its standard deviation; the
  /// logarithm of what more than one cost: mean and standard deviation.
  double node_doubling, node_walk, node_size, node_size_deviation;
  /// Whether the simple predictors take part in predictions; constants are fitted without them.
  bool combined = false;
  /// How many times as wide as the mixture's the logarithms of an interval are, below and above, by what is
  /// known (KnownCounts).
  std::array<std::pair<double, double>, 4> widening{{{1, 1}, {1, 1}, {1, 1}, {1, 1}}};
};

/// Fitted by bench/fit_curves.cpp to the curves of half of the sites.
extern const CurvePrior kCurvePrior;

/// What a prediction starts from.
enum class KnownCounts { kOne, kSeveral, kOneNodeForSeveral, kSeveralNodes };

KnownCounts known_counts(std::span<const CurvePoint> known, const CurvePoint& at);

/// Images per second of an overhead that grows with log2 N, by least squares.
double by_log2(std::span<const CurvePoint> known, int gpus);

/// Images per second, and the interval that holds 90 % of measurements.
struct Forecast {
  double images_per_s = 0;
  double low = 0;
  double high = 0;
};

/// Predicts the rate of a curve's job at the count, nodes and batch of `at` from its `known` counts, one or
/// more. Communication that a table tells replaces the prior's ring. Formulas: docs/predicting.md.
Forecast forecast(const Curve& curve, std::span<const CurvePoint> known, const CurvePoint& at,
                  const CurvePrior& prior = kCurvePrior);

}  // namespace lockstep::predict
