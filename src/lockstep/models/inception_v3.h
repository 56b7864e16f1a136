#pragma once

#include "lockstep/models/model.h"

namespace lockstep::models {

/// Inception v3 (Szegedy et al. 2015) as torchvision builds, names and initialises it, without the auxiliary
/// classifier, as tf_cnn_benchmarks trains it.
std::unique_ptr<Model> create_inception_v3(const ModelOptions& options);

/// With the auxiliary classifier, whose loss counts 0.4; it takes images of 299x299 or more.
std::unique_ptr<Model> create_inception_v3_aux(const ModelOptions& options);

}  // namespace lockstep::models
