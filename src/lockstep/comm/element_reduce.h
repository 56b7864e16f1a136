#pragma once

#include <cstddef>

#include "lockstep/comm/types.h"

namespace lockstep::comm {

/// output[i] = a[i] op b[i] for `count` elements. output may be a or b, otherwise they do not overlap. fp16
/// and bf16 are combined in fp32 and rounded to nearest even; integers wrap around. The same bits on every
/// processor.
using ReduceFunction = void (*)(void* output, const void* a, const void* b, size_t count);

ReduceFunction reduce_function(DType dtype, ReduceOp op);

}  // namespace lockstep::comm
