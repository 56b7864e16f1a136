#pragma once

#include <cstdint>
#include <string_view>

#include <ATen/core/Generator.h>

#include "lockstep/base/stream_seed.h"

namespace lockstep::replica {

using lockstep::stream_seed;

/// A CPU generator of its own for the stream of that seed. Nothing in lockstep draws from a process-wide
/// generator. The generator behind it (Mersenne twister) takes 32 of the seed's bits, so among 10,000 streams
/// there is one chance in a hundred that two are the same: good for parameters and samples, not for
/// simulations.
at::Generator stream_generator(uint64_t seed, std::string_view purpose, uint64_t index = 0);

}  // namespace lockstep::replica
