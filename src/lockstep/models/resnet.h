#pragma once

#include "lockstep/models/model.h"

namespace lockstep::models {

/// The residual networks of He et al. 2015 and their grouped kin of Xie et al. 2016, as torchvision builds,
/// names and initialises them (no zero-initialised residual branch).
std::unique_ptr<Model> create_resnet18(const ModelOptions& options);
std::unique_ptr<Model> create_resnet34(const ModelOptions& options);
std::unique_ptr<Model> create_resnet50(const ModelOptions& options);
/// The stride in the first 1x1 convolution of a block, as published; all others have it in the 3x3 ("v1.5").
std::unique_ptr<Model> create_resnet50_v1(const ModelOptions& options);
std::unique_ptr<Model> create_resnet101(const ModelOptions& options);
std::unique_ptr<Model> create_resnet152(const ModelOptions& options);
std::unique_ptr<Model> create_resnext50_32x4d(const ModelOptions& options);
std::unique_ptr<Model> create_resnext101_32x8d(const ModelOptions& options);

}  // namespace lockstep::models
