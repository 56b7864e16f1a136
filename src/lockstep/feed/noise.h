#pragma once

#include <cstdint>
#include <span>

namespace lockstep::feed {

/// Fills `out` with uniform bytes that depend on the seed and their place alone, at several GB/s: byte i is
/// byte i % 8 of splitmix64's output number i / 8 (Steele, Lea and Flood 2014).
void fill_with_noise(uint64_t seed, std::span<uint8_t> out);

}  // namespace lockstep::feed
