#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace lockstep::kernels::onednn {

// Packs the weights of a convolution for oneDNN's bf16 primitives on a processor with AVX-512: blocks of 16 x
// 16 channels, with pairs of the channels that are summed over, because the instructions multiply and add
// pairs (OIhw8i16o2i forward; OIhw8o16i2o and IOhw8o16i2o for the gradient of the input). From a parameter in
// channels last, oneDNN's own reorder reaches 6 to 17 GB/s, and took 3 % of a bf16 step of ResNet-50
// (docs/dev/cpu-speed.md).

/// Whether make_pairs() supports this: from fp32 with adjacent input channels to one of the layouts above,
/// without groups.
bool can_make_pairs(const dnnl::memory::desc& from, const dnnl::memory::desc& into);

/// into = bf16(from), rounded to nearest even. Uses the calling thread's OpenMP team.
void make_pairs(const dnnl::memory& from, const dnnl::memory& into);

}  // namespace lockstep::kernels::onednn
