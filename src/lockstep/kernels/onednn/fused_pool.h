#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/pool_shape.h"

namespace lockstep::kernels::onednn {

enum class PoolKind { kMax, kMean };

/// Maximum or mean (padding counts as zeros) over the windows of a blocked image, while training: the maximum
/// keeps a byte per window, not the place as eight. Returns a blocked image, or an undefined tensor where
/// this pooling is not covered: a mean over windows that hang over the edge, or a type that oneDNN has no
/// fast code for on this processor.
at::Tensor fused_pool(const at::Tensor& x, const PoolShape& shape, PoolKind kind);

}  // namespace lockstep::kernels::onednn
