#pragma once

#include "lockstep/data/image.h"

namespace lockstep::data {

/// Writes `size` x `size` pixels of what the view shows to `out` (channels interleaved). Bilinear; along an
/// axis that shrinks, the triangle of weights is widened by as much, so that no pixel is passed over (as
/// Pillow does it). The view lies inside of the image. Pixels beside the view count where the image has them;
/// beyond its edge there is nothing, and the others weigh more. Weights are in fixed point.
void resample(const ImageRef& image, const View& view, int size, uint8_t* out);

}  // namespace lockstep::data
