#pragma once

#include <cstdint>
#include <optional>
#include <string>

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
  double gflop_per_s() const {
    return time_s() > 0 ? 2e-9 * static_cast<double>(multiply_adds + backward_multiply_adds) / time_s() : 0;
  }
  double gb_per_s() const {
    return time_s() > 0 ? 1e-9 * static_cast<double>(bytes + backward_bytes) / time_s() : 0;
  }
  std::optional<double> of_limit() const {
    if (!limit_forward_s || !limit_backward_s || time_s() <= 0) return std::nullopt;
    return (*limit_forward_s + *limit_backward_s) / time_s();
  }
};

}  // namespace lockstep::results
