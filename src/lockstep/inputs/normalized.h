#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/feed/normalize.h"

namespace lockstep::inputs {

/// Scale and shift of each channel as tensors, to be used again and again.
struct ChannelScaling {
  /// fp32, [1, channels, 1, 1], on that device.
  ChannelScaling(const feed::Scaling& scaling, int64_t channels, at::Device device);

  at::Tensor scale;
  at::Tensor shift;
};

/// What feed::normalize_interleaved and normalize_planar compute, on the device where the pixels are: two
/// launches, and nothing that the host waits for. A value may differ from theirs by a rounding. `pixels`:
/// uint8, [batch, height, width, channels], contiguous. Returns fp32 [batch, channels, height, width] in the
/// memory format.
at::Tensor normalized(const at::Tensor& pixels, const ChannelScaling& scaling,
                      at::MemoryFormat memory_format);

}  // namespace lockstep::inputs
