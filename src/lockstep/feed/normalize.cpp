#include "lockstep/feed/normalize.h"

#include <cstddef>

namespace lockstep::feed {
namespace {

/// Values per block, a multiple of every number of channels and of every vector's length. The channel of a
/// value follows from its place in the block:
///
///   place     0 1 2 3 4 5 ... 47
///   channel   r g b r g b ... b        scale[place] and shift[place] are loaded as whole vectors
constexpr int kBlock = 48;

template <int kChannels>
void split_channels(const uint8_t* __restrict pixels, int64_t count, const Scaling& scaling,
                    float* __restrict out) {
  for (int c = 0; c < kChannels; ++c) {
    const float scale = scaling.scale[static_cast<size_t>(c)];
    const float shift = scaling.shift[static_cast<size_t>(c)];
    const uint8_t* from = pixels + c;
    float* to = out + c * count;
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i * kChannels]) * scale + shift;
  }
}

}  // namespace

Scaling scaling_of(const std::array<float, 3>& mean, const std::array<float, 3>& deviation) {
  Scaling scaling;
  for (size_t c = 0; c < mean.size(); ++c) {
    scaling.scale[c] = 1 / (255 * deviation[c]);
    scaling.shift[c] = -mean[c] / deviation[c];
  }
  return scaling;
}

void normalize_interleaved(const uint8_t* __restrict pixels, int64_t count, int channels,
                           const Scaling& scaling, float* __restrict out) {
  float scale[kBlock];
  float shift[kBlock];
  for (int i = 0; i < kBlock; ++i) {
    scale[i] = scaling.scale[static_cast<size_t>(i % channels)];
    shift[i] = scaling.shift[static_cast<size_t>(i % channels)];
  }
  const int64_t values = count * channels;
  int64_t at = 0;
  for (; at + kBlock <= values; at += kBlock) {
    for (int i = 0; i < kBlock; ++i) out[at + i] = static_cast<float>(pixels[at + i]) * scale[i] + shift[i];
  }
  for (int i = 0; at + i < values; ++i) {
    out[at + i] = static_cast<float>(pixels[at + i]) * scale[i] + shift[i];
  }
}

void normalize_planar(const uint8_t* pixels, int64_t count, int channels, const Scaling& scaling,
                      float* out) {
  if (channels == 3) {
    split_channels<3>(pixels, count, scaling, out);
  } else {
    split_channels<1>(pixels, count, scaling, out);
  }
}

}  // namespace lockstep::feed
