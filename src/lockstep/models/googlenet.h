#pragma once

#include "lockstep/models/model.h"

namespace lockstep::models {

/// GoogLeNet (Szegedy et al. 2014) with batch normalisation, as torchvision builds, names and initialises it,
/// its 3x3 in place of the 5x5 convolutions included, without auxiliary classifiers.
std::unique_ptr<Model> create_googlenet(const ModelOptions& options);

/// With the two auxiliary classifiers, whose losses count 0.3 each.
std::unique_ptr<Model> create_googlenet_aux(const ModelOptions& options);

}  // namespace lockstep::models
