#pragma once

#include <random>

#include "lockstep/data/image.h"

namespace lockstep::data {

/// The random numbers of one sample's augmentation. Only its raw output is used, which the standard fixes:
/// views are the same with every standard library.
using Dice = std::mt19937_64;

/// Uniform in [0, 1).
double uniform(Dice& dice);

/// A random part of the image, as training on ImageNet has it since Inception (Szegedy et al. 2015; these
/// bounds are torchvision's RandomResizedCrop): 8 to 100 % of the area, sides 3:4 to 4:3, mirrored every
/// other time.
View random_resized_view(Dimensions image, Dice& dice);

/// As training on CIFAR has it (He et al. 2016): a square as large as the image without its border of
/// `padding` pixels, anywhere in it, mirrored every other time. `padded` is the image with its border.
View shifted_view(Dimensions padded, int padding, Dice& dice);

/// The middle square, 224/256 of the shorter side: torchvision's Resize(256), CenterCrop(224).
View centre_view(Dimensions image);

/// All of the image; its sides' ratio is not kept.
View whole_view(Dimensions image);

}  // namespace lockstep::data
