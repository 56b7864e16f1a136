#include "lockstep/feed/random_batches.h"

#include <bit>
#include <cstring>

#include "lockstep/base/stream_seed.h"

namespace lockstep::feed {

namespace {

/// The sequence splitmix64 (Steele, Lea and Flood 2014): output number i + 1 of seed s is mix(s + (i + 1) *
/// kStride).
constexpr uint64_t kStride = 0x9e3779b97f4a7c15;
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

static_assert(std::endian::native == std::endian::little, "bytes would come in another order");

void fill_with_noise(uint64_t seed, std::span<uint8_t> out) {
  const size_t words = out.size() / sizeof(uint64_t);
  uint8_t* to = out.data();
  for (size_t i = 0; i < words; ++i) {
    const uint64_t word = mix(seed + (i + 1) * kStride);
    std::memcpy(to + i * sizeof word, &word, sizeof word);
  }
  // An empty span may have no address, which memcpy must not be given even for zero bytes.
  if (out.size() % sizeof(uint64_t) == 0) return;
  const uint64_t last = mix(seed + (words + 1) * kStride);
  std::memcpy(to + words * sizeof last, &last, out.size() % sizeof last);
}

void RandomBatches::make_part(int64_t number, int64_t first, int64_t end, uint8_t* pixels,
                              int64_t* labels) const {
  // Samples are numbered through all batches of all ranks: that of rank r follows that of rank r - 1.
  const int64_t before = (number * ranks_ + rank_) * shape_.batch;
  const int64_t image_bytes = shape_.image_bytes();
  for (int64_t i = first; i < end; ++i) {
    const auto sample = static_cast<uint64_t>(before + i);
    fill_with_noise(stream_seed(seed_, "pixels", sample),
                    {pixels + i * image_bytes, static_cast<size_t>(image_bytes)});
    labels[i] = static_cast<int64_t>(stream_seed(seed_, "label", sample) % static_cast<uint64_t>(classes_));
  }
}

Scaling scaling_of_noise() {
  return scaling_of({kNoiseMean, kNoiseMean, kNoiseMean},
                    {kNoiseDeviation, kNoiseDeviation, kNoiseDeviation});
}

}  // namespace lockstep::feed
