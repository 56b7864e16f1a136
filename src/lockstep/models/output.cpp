#include "lockstep/models/output.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>

namespace lockstep::models {

at::Tensor cross_entropy(const Output& output, const at::Tensor& labels) {
  at::Tensor loss = at::cross_entropy_loss(output.logits, labels);
  for (const auto& [logits, weight] : output.auxiliary) {
    loss = loss + weight * at::cross_entropy_loss(logits, labels);
  }
  return loss;
}

}  // namespace lockstep::models
