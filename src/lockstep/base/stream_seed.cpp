#include "lockstep/base/stream_seed.h"

namespace lockstep {
namespace {

/// The output function of splitmix64: every bit of the result depends on every bit of x.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// FNV-1a, 64 bits.
uint64_t hash_text(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

uint64_t stream_seed(uint64_t seed, std::string_view purpose, uint64_t index) {
  // Mixed in turn, never added: (1, index 2) and (2, index 1) are different streams.
  return mix(mix(mix(seed) ^ hash_text(purpose)) ^ index);
}

}  // namespace lockstep
