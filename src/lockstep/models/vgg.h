#pragma once

#include "lockstep/models/model.h"

namespace lockstep::models {

/// The networks of Simonyan and Zisserman 2014 without batch norm (their A, D and E), as torchvision builds,
/// names and initialises them.
std::unique_ptr<Model> create_vgg11(const ModelOptions& options);
std::unique_ptr<Model> create_vgg16(const ModelOptions& options);
std::unique_ptr<Model> create_vgg19(const ModelOptions& options);

}  // namespace lockstep::models
