#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "layers.h"

namespace lockstep::limit {

/// The operation that a primitive computes.
enum class Work { kConvolution, kNorm, kRelu, kPool, kResponseNorm, kLinear };
enum class Direction { kForward, kBackward, kBackwardData, kBackwardWeights };

std::string_view to_string(Work work);
std::string_view to_string(Direction direction);

/// The fastest implementation found for one direction of one layer.
struct PartLimit {
  Work work = Work::kConvolution;
  Direction direction = Direction::kForward;
  double time_s = 0;
  int64_t multiply_adds = 0;
  /// Total size of all operands, each read or written once.
  int64_t bytes = 0;
  /// "nhwc", "nChw16c", or "any" if the library chose.
  std::string layout;
  /// oneDNN's name for it, or "winograd" (kernels/winograd.h); a list if it takes several primitives.
  std::string implementation;

  /// Counts two operations per multiply-add; 0 for a part without multiply-adds.
  double gflop_per_s() const { return 2e-9 * static_cast<double>(multiply_adds) / time_s; }
  double gb_per_s() const { return 1e-9 * static_cast<double>(bytes) / time_s; }
};

/// A group of identical layers, and the least time that each of them takes.
struct LayerLimit {
  Layer layer;
  /// The layers' names in the order of the network; the first one is `layer`'s.
  std::vector<std::string> names;
  std::vector<PartLimit> parts;

  size_t count() const { return names.size(); }
  double forward_s() const;
  double backward_s() const;
};

/// The least time of one training step: the sum of the best times of all primitives.
struct Limit {
  int64_t batch = 0;
  bool bf16 = false;
  /// OpenMP threads that computed.
  int threads = 0;
  /// In the order of the network.
  std::vector<LayerLimit> layers;

  /// Sum over all layers.
  double total_s(Work work, Direction direction) const;
  double step_s() const;
  double images_per_s() const { return static_cast<double>(batch) / step_s(); }
};

struct LimitOptions {
  bool bf16 = false;
  /// Timed runs of each primitive. One that is far from the best after two runs is given up.
  int runs = 10;
  /// Called before each group of identical layers is measured, with the number of groups. May be empty.
  std::function<void(size_t done, size_t all)> progress;
};

/// Throws BackendMissing if no limit can be measured.
void require_limit();

/// Measures on the calling thread's OpenMP team; nothing else should compute meanwhile. A primitive's time is
/// its shortest run, on memory that was touched before, in the best of the layouts that it supports. Changing
/// the layout between two layers is not counted, so a real step cannot reach the limit. Throws
/// BackendMissing, and Error for a layer that oneDNN cannot compute on this processor in this precision.
Limit measure_limit(const std::vector<Layer>& layers, const LimitOptions& options = {});

/// The parts of one layer, direction by direction: one step of measure_limit().
std::vector<PartLimit> measure_parts(const Layer& layer, const LimitOptions& options);

}  // namespace lockstep::limit
