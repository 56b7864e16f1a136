#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

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

}  // namespace lockstep::predict
