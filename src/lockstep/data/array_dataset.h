#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// Images of one size, in memory.
struct Samples {
  int width = 0;
  int height = 0;
  int channels = 0;
  /// Image after image, channels interleaved.
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> labels;

  size_t image_bytes() const {
    return static_cast<size_t>(width) * static_cast<size_t>(height) * static_cast<size_t>(channels);
  }
};

/// What tells one such data set from another.
struct ArrayKind {
  std::string name;
  /// Labels are below this.
  int64_t classes = 0;
  Normalization normalization;
  /// Random shifts by so many pixels, and mirroring; 0: training sees the images as they are.
  int padding = 0;
};

std::shared_ptr<const Dataset> make_array_dataset(Samples samples, ArrayKind kind);

}  // namespace lockstep::data
