#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/kernels/layer.h"
#include "lockstep/models/model.h"

namespace lockstep::limit {

/// What a primitive belongs to.
enum class Work { kConvolution, kNorm, kRelu, kPool, kResponseNorm, kLinear };
enum class Direction { kForward, kBackward, kBackwardData, kBackwardWeights };

std::string_view to_string(Work work);
std::string_view to_string(Direction direction);

/// The fastest way that was found for one direction of one layer.
struct PartLimit {
  Work work = Work::kConvolution;
  Direction direction = Direction::kForward;
  double time_s = 0;
  int64_t multiply_adds = 0;
  /// Of all operands, each read or written once.
  int64_t bytes = 0;
  /// "nhwc", "nChw16c", or "any" where the library chose.
  std::string layout;
  /// As oneDNN calls it, or "winograd" (kernels/winograd.h); several where it takes several primitives.
  std::string implementation;

  /// Two operations per multiply-add; 0 without any.
  double gflop_per_s() const { return 2e-9 * static_cast<double>(multiply_adds) / time_s; }
  double gb_per_s() const { return 1e-9 * static_cast<double>(bytes) / time_s; }
};

/// Layers that are alike, and what each of them takes at least.
struct LayerLimit {
  kernels::Layer layer;
  /// In the order of the network; the first is `layer`'s.
  std::vector<std::string> names;
  std::vector<PartLimit> parts;

  size_t count() const { return names.size(); }
  double forward_s() const;
  double backward_s() const;
};

/// What one training step takes at least: the sum of the best time of every primitive.
struct Limit {
  int64_t batch = 0;
  bool bf16 = false;
  /// That the library computed with.
  int threads = 0;
  /// In the order of the network.
  std::vector<LayerLimit> layers;

  /// Of all layers together.
  double total_s(Work work, Direction direction) const;
  double total_s(Work work) const;
  double step_s() const;
  double images_per_s() const { return static_cast<double>(batch) / step_s(); }
  /// Null for a name that is not among the layers.
  const LayerLimit* find(std::string_view layer) const;
};

struct LimitOptions {
  bool bf16 = false;
  /// Timed runs of each primitive; of one that is far from the best after two, no more.
  int runs = 10;
  /// Told before each group of alike layers is measured, with how many there are. May be empty.
  std::function<void(size_t done, size_t all)> progress;
};

/// Why there is no limit in this build or on this machine; empty where there is one.
std::string why_no_limit();

/// Throws BackendMissing where there is no limit.
void require_limit();

/// Measures on the calling thread's OpenMP threads, while nobody else should compute. A primitive's time is
/// its shortest run on memory that was touched before, in the best of the layouts that it can work in;
/// between two layers nothing is counted for changing the layout. Throws BackendMissing, and Error for a
/// layer that oneDNN cannot compute on this processor in this precision.
Limit measure_limit(const std::vector<kernels::Layer>& layers, const LimitOptions& options = {});

}  // namespace lockstep::limit
