#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/fields.h"

namespace lockstep::results {

/// Time that one layer of a network takes in a training step, on the first rank.
struct LayerTimes {
  std::string name;
  /// "conv 3x3/2 64->128 56x56 + norm + relu"
  std::string what;
  double forward_s = 0;
  double backward_s = 0;
  /// 0 for a layer that has none.
  int64_t multiply_adds = 0;
  int64_t backward_multiply_adds = 0;
  /// Bytes of images, gradients and weights, each counted once.
  int64_t bytes = 0;
  int64_t backward_bytes = 0;
  /// The least time that the layer can take; empty: the limit was not measured.
  std::optional<double> limit_forward_s;
  std::optional<double> limit_backward_s;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& layer) {
    fields("name", layer.name, kRequired);
    fields("what", layer.what);
    fields("forward_s", layer.forward_s, kRequired);
    fields("backward_s", layer.backward_s, kRequired);
    fields("multiply_adds", layer.multiply_adds);
    fields("backward_multiply_adds", layer.backward_multiply_adds);
    fields("bytes", layer.bytes);
    fields("backward_bytes", layer.backward_bytes);
    fields("limit_forward_s", layer.limit_forward_s);
    fields("limit_backward_s", layer.limit_backward_s);
  }

  double time_s() const { return forward_s + backward_s; }
  /// Rate over both directions, with two operations per multiply-add.
  double gflop_per_s() const;
  double gb_per_s() const;
  std::optional<double> of_limit() const;
};

/// Worst first: by GFLOP/s what multiplies, then by GB/s the rest.
std::vector<const LayerTimes*> worst_first(const std::vector<LayerTimes>& layers);

}  // namespace lockstep::results
