#pragma once

#include "lockstep/predict/curves/curve.h"
#include "lockstep/predict/jobs/collective_table.h"

namespace lockstep::predict {

/// Computes `transfer_s` and `hidden_s` of every point by the costs in `table`: gradients of four bytes per
/// parameter (two where `precision` says "fp16 all-reduce") are all-reduced in buckets of 25 MiB, as
/// PyTorch's DDP does, which become final evenly over backward, two thirds of a step's computing. The
/// computing is that of the smallest count without its own communication. False, and nothing changed, for a
/// curve without parameters or batches.
bool add_transfer(Curve& curve, const CollectiveTable& table);

}  // namespace lockstep::predict
