#pragma once

#include <random>

#include "lockstep/data/image.h"

namespace lockstep::data {

/// The random numbers of one sample's augmentation. Only the raw output is used, which the standard
/// specifies, so that views are the same with every standard library.
using Dice = std::mt19937_64;

/// Uniform in [0, 1).
double uniform(Dice& dice);

/// A random part of the image, as usual in training on ImageNet since Inception (Szegedy et al. 2015; the
/// bounds are those of torchvision's RandomResizedCrop): 8 to 100 % of the area, sides 3:4 to 4:3, mirrored
/// every other time.
View random_resized_view(Dimensions image, Dice& dice);

/// A shifted view, as usual in training on CIFAR (He et al. 2016): the image's size without its border of
/// `padding` pixels, anywhere in the bordered image `padded`, mirrored every other time.
View shifted_view(Dimensions padded, int padding, Dice& dice);

/// The middle square, 224/256 of the shorter side: torchvision's Resize(256), CenterCrop(224).
View centre_view(Dimensions image);

/// The whole image; its aspect ratio is not kept.
View whole_view(Dimensions image);

}  // namespace lockstep::data
