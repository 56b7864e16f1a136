#pragma once

#include "lockstep/models/model.h"

namespace lockstep::models {

/// AlexNet in one column (Krizhevsky 2014), as torchvision builds, names and initialises it.
std::unique_ptr<Model> create_alexnet(const ModelOptions& options);

/// AlexNet of Krizhevsky et al. 2012 in Theano-MPI's form: second, fourth and fifth convolution in two
/// groups, local response normalisation behind the first two poolings, images of 227x227; its first values.
/// Layers have Caffe's names.
std::unique_ptr<Model> create_alexnet_caffe(const ModelOptions& options);

}  // namespace lockstep::models
