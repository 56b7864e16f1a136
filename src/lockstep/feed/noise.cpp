#include "lockstep/feed/noise.h"

#include <bit>
#include <cstring>

namespace lockstep::feed {
namespace {

static_assert(std::endian::native == std::endian::little, "bytes would come in another order");

constexpr uint64_t kStride = 0x9e3779b97f4a7c15;

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

void fill_with_noise(uint64_t seed, std::span<uint8_t> out) {
  const size_t words = out.size() / sizeof(uint64_t);
  uint8_t* to = out.data();
  for (size_t i = 0; i < words; ++i) {
    const uint64_t word = mix(seed + (i + 1) * kStride);
    std::memcpy(to + i * sizeof word, &word, sizeof word);
  }
  if (out.size() % sizeof(uint64_t) == 0) return;
  const uint64_t last = mix(seed + (words + 1) * kStride);
  std::memcpy(to + words * sizeof last, &last, out.size() % sizeof last);
}

}  // namespace lockstep::feed
