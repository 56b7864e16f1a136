#pragma once

#include <span>

#include "lockstep/predict/curves/curve.h"

namespace lockstep::predict {

/// Beliefs about a job's overhead before any of its counts is known. Overheads are relative to the
/// first known cost, at an overhead of size 1 (docs/predicting.md).
struct CurvePrior {
  /// Mean overhead of a doubling of the GPUs, of a ring's bytes, of more GPUs than one, of more nodes than
  /// one; the last has the usual size, with a standard deviation, whatever the size within a node.
  double doubling, ring, several_gpus, several_nodes, nodes_deviation;
  /// Standard deviations: of what each doubling adds on its own, and of what all doublings add alike.
  double walk, slope;
  /// Scatter of a measurement relative to its value: in any case, and for an overhead of size 1.
  double scatter, scatter_of_size;
  /// Logarithm of the size of the overhead: mean, standard deviation, and what 16-bit floats add.
  double size, size_deviation, half_precision;
};

/// Fitted by bench/fit_curves.cpp to the curves of half of the sites.
extern const CurvePrior kCurvePrior;

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
