#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/predict/jobs/collective_table.h"

namespace lockstep::predict {

/// One count of a scaling curve.
struct CurvePoint {
  int gpus = 0;
  int nodes = 1;
  /// Images per GPU and step; 0 if not stated.
  double batch_per_gpu = 0;
  /// Images per second of the whole job.
  double images_per_s = 0;
  /// Communication of a step that its computing does not hide, by a table of collectives; empty: there is
  /// none.
  std::optional<double> transfer_s = {};
  /// Communication by the table that computing is taken to hide.
  double hidden_s = 0;

  /// GPU seconds per image.
  double cost_s() const { return gpus / images_per_s; }
};

/// Published throughput of one job on several numbers of GPUs.
struct Curve {
  std::string name;
  std::string model;
  std::string precision;
  /// Where the first row was published; empty if not stated.
  std::string source;
  /// Values of the network that are trained; 0 if not stated.
  double parameters = 0;
  /// Counts ascend, each once.
  std::vector<CurvePoint> points;

  /// Whether the batch per GPU changes along the curve.
  bool is_strong() const {
    return std::ranges::any_of(points, [this](const CurvePoint& point) {
      return point.batch_per_gpu != points.front().batch_per_gpu;
    });
  }
  bool has_several_nodes() const { return points.back().nodes > 1; }
};

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

/// A count of a curve that was predicted from smaller ones, beside what was published.
struct CurvePrediction {
  std::string curve;
  int gpus = 0;
  Forecast forecast;
  double measured = 0;
  /// The largest count that the prediction knew.
  int known_gpus = 0;
  KnownCounts known = KnownCounts::kOne;
  /// Measured efficiency against the smallest count.
  double efficiency = 1;
  bool strong = false;
  bool several_nodes = false;
  /// Images per second by the yardsticks of every prediction: the efficiency of the last known count, and an
  /// overhead that grows with log2 N, by least squares.
  double last_efficiency = 0, log2 = 0;

  bool is_covered() const { return forecast.low <= measured && measured <= forecast.high; }
};

/// Predicts every count of every curve above `known_up_to` GPUs, or without it above half of the curve's
/// largest count, from the others; a curve's smallest count is always known. Curves without another count are
/// left out.
std::vector<CurvePrediction> predict_curves(std::span<const Curve> curves, std::optional<int> known_up_to,
                                            const CurvePrior& prior = kCurvePrior);

/// Relative errors, |predicted / measured - 1|.
struct ErrorSummary {
  double mean = 0;
  double median = 0;
  double p90 = 0;
};

/// Throws Error for no errors.
ErrorSummary summarize_errors(std::span<const double> errors);

/// Computes `transfer_s` and `hidden_s` of every point by the costs in `table`: gradients of four bytes per
/// parameter (two where `precision` says "fp16 all-reduce") are all-reduced in buckets of 25 MiB, as
/// PyTorch's DDP does, which become final evenly over backward, two thirds of a step's computing. The
/// computing is that of the smallest count without its own communication. False, and nothing changed, for a
/// curve without parameters or batches.
bool add_transfer(Curve& curve, const CollectiveTable& table);

/// Reads curves from a table in the columns of data/published/sources: `gpus` (or ranks, workers), a rate or
/// seconds, and what describes the job. Rows of one `curve` belong together; without that column, rows that
/// agree in the columns that describe the job. Repeated counts become their median rate. Throws ConfigError
/// that names the file and the line.
std::vector<Curve> read_curves(const std::filesystem::path& path);

}  // namespace lockstep::predict
