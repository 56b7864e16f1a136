#pragma once

#include "lockstep/models/model.h"

namespace lockstep::models {

/// LeNet-5 in LeCun et al.'s widths (1998: 6 and 16 5x5 convolutions, 120, 84, 10), with ReLU and max
/// pooling, all connections between the two convolutions, and the first one padded by 2 for MNIST's 28x28x1.
/// No batch norm.
std::unique_ptr<Model> create_lenet5(const ModelOptions& options);

}  // namespace lockstep::models
