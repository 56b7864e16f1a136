#pragma once

#include <cstdint>
#include <string_view>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include "lockstep/base/stream_seed.h"

namespace lockstep::replica {

using lockstep::stream_seed;

/// Returns a new CPU generator for the stream of (seed, purpose, index). Nothing in lockstep draws from a
/// process-wide generator. The Mersenne twister behind it uses 32 bits of the seed, so among 10,000 streams
/// the chance that two are the same is one in a hundred: good enough for parameters and samples, not for
/// simulations.
inline at::Generator stream_generator(uint64_t seed, std::string_view purpose, uint64_t index = 0) {
  return at::make_generator<at::CPUGeneratorImpl>(stream_seed(seed, purpose, index));
}

}  // namespace lockstep::replica
