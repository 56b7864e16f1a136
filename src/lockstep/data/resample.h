#pragma once

#include "lockstep/data/image.h"

namespace lockstep::data {

/// Resamples the view to `size` x `size` pixels in `out` (channels interleaved). Bilinear; along an axis that
/// shrinks, the triangle of weights widens accordingly, so that no pixel is skipped (as in Pillow). The view
/// lies inside the image. Pixels beside the view count if the image has them; at its edge the weights of the
/// remaining pixels are scaled up. Weights are in fixed point.
void resample(const ImageRef& image, const View& view, int size, uint8_t* out);

}  // namespace lockstep::data
