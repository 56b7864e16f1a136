#pragma once

#include "lockstep/models/model.h"

namespace lockstep::models {

/// The residual networks of He et al. 2015, section 4.2, for CIFAR-10's images of 32x32: three stages of 16,
/// 32 and 64 channels. Where the shape changes, the shortcut takes every second pixel and adds channels of
/// zeros (their option A, without parameters), half of them before and half behind, as tf_cnn_benchmarks has
/// it.
std::unique_ptr<Model> create_resnet20(const ModelOptions& options);
std::unique_ptr<Model> create_resnet56(const ModelOptions& options);

}  // namespace lockstep::models
