#pragma once

#include <cstdint>
#include <functional>

#include "lockstep/train/rows/row_estimate.h"

namespace lockstep::train {

/// Does `work`, which trains a row. Where the memory of its GPU runs out in it, throws Error that says so,
/// with the batch that would fit.
void with_fitting_batch(const RowPlan& row, const std::function<void()>& work);

/// The largest batch per rank that can be expected to fit where the row's own does not and tensors had
/// `used_bytes` when memory ran out; 0: none.
int fitting_batch(const RowPlan& row, const MemoryEstimate& estimate, int64_t used_bytes);

}  // namespace lockstep::train
