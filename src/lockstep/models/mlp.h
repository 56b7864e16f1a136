#pragma once

#include "lockstep/models/model.h"

namespace lockstep::models {

/// 32x32x3 -> 512 -> 512 -> 512 -> 10, ReLU between: no convolution and no batch norm, so a joint batch
/// computes what the ranks' parts do.
std::unique_ptr<Model> create_mlp(const ModelOptions& options);

/// 32x32x3 -> 16 -> 10, ReLU between. After tf_cnn_benchmarks' network of that name, much smaller: its step
/// costs little more than the calls, so it shows what everything around the network adds.
std::unique_ptr<Model> create_trivial(const ModelOptions& options);

}  // namespace lockstep::models
