#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace lockstep::kernels::onednn {

// The weights of a convolution as its bf16 primitives want them on a processor with AVX-512: blocks of 16 by
// 16 channels, the channels that are summed over in pairs (OIhw8i16o2i for the way forward, OIhw8o16i2o and
// IOhw8o16i2o for the way back to the input). From a parameter in channels last oneDNN's reorder reaches
// 6 to 17 GB/s, and was 3 % of a bf16 step of ResNet-50 (docs/cpu-speed.md).

/// Whether make_pairs is for this: from fp32 with adjacent input channels, into one of those, without groups.
bool can_make_pairs(const dnnl::memory::desc& from, const dnnl::memory::desc& into);

/// into = bf16(from), rounded to nearest even. Threaded.
void make_pairs(const dnnl::memory& from, const dnnl::memory& into);

}  // namespace lockstep::kernels::onednn
