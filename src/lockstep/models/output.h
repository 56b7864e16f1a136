#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::models {

/// What a classifier in the middle of a network says, and how much its loss counts.
struct AuxiliaryLogits {
  at::Tensor logits;
  double weight = 0;
};

/// What a forward pass gives.
struct Output {
  /// [batch, classes].
  at::Tensor logits;
  /// In the order in which the network computes them; empty outside of training.
  std::vector<AuxiliaryLogits> auxiliary = {};
};

/// Mean cross entropy over the batch, plus that of the auxiliary logits times their weights.
/// labels: [batch], int64.
at::Tensor cross_entropy(const Output& output, const at::Tensor& labels);

}  // namespace lockstep::models
