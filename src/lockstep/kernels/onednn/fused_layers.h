#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/shapes.h"
#include "lockstep/replica/parameters.h"

// Layers on oneDNN, for training on the CPU. A layer that is not covered returns an undefined tensor, and the
// block computes it with LibTorch. The primitives of a layer are created once for each shape and type of its
// input, and kept as long as the layer, because backward passes point to them. Not thread-safe: a replica
// belongs to one thread. `place`: the place for the weight's gradient, or an empty one. With autocast, they
// compute in bf16.

namespace lockstep::kernels::onednn {

struct ConvPlan;
struct LinearPlan;

/// A convolution with optional bias and ReLU, computed by oneDNN, or by Winograd's filtering
/// (winograd.h) where that is faster.
class FusedConv {
 public:
  FusedConv(const ConvShape& shape, bool relu);
  ~FusedConv();
  FusedConv(const FusedConv&) = delete;
  FusedConv& operator=(const FusedConv&) = delete;

  /// x: a plain or a blocked image. `bias`: may be undefined. Returns a blocked image. Not covered: channels
  /// that do not fill blocks (except images of at most three channels that need no gradient), groups that do
  /// not, and types for which oneDNN has no fast code on this processor.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        const replica::GradientPlace& place);

 private:
  ConvShape shape_;
  bool relu_;
  /// By sizes and type of the input. Null: not covered.
  std::map<std::vector<int64_t>, std::unique_ptr<ConvPlan>> plans_;
};

/// A fully connected layer. The gradient of its weight, which is most of the gradient of a network with such
/// layers, is written once and in fp32, even if the layer computes in bf16.
class FusedLinear {
 public:
  FusedLinear();
  ~FusedLinear();
  FusedLinear(const FusedLinear&) = delete;
  FusedLinear& operator=(const FusedLinear&) = delete;

  /// x: [batch, in], weight: [out, in] and bias: [out] fp32. Returns [batch, out]. Not covered: types for
  /// which oneDNN has no fast code on this processor.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        const replica::GradientPlace& place);

 private:
  /// By batch and type of the input. Null: not covered.
  std::map<std::vector<int64_t>, std::unique_ptr<LinearPlan>> plans_;
};

/// Maximum or mean (padding counts as zeros) over the windows of a blocked image. For the backward pass a
/// maximum keeps one byte per window, where LibTorch keeps an index of eight. Returns a blocked image. Not
/// covered: a mean over windows that extend beyond the padding, and types for which oneDNN has no fast code
/// on this processor.
at::Tensor fused_pool(const at::Tensor& x, const PoolShape& shape, PoolKind kind);

}  // namespace lockstep::kernels::onednn
