#pragma once

#include <cstdint>
#include <string_view>

#include <ATen/core/Generator.h>

namespace lockstep::replica {

/// A number that depends on all of its inputs and on nothing else: the seed of one independent stream.
/// Streams are named by what they are for ("layer1.0.conv1.weight", "image", "label") and counted by `index`
/// (a sample's place in the global batch, a step), so the values are the same in any split over ranks.
uint64_t stream_seed(uint64_t seed, std::string_view purpose, uint64_t index = 0);

/// A CPU generator of its own for that stream. Nothing in lockstep draws from a process-wide generator.
/// The generator behind it (Mersenne twister) takes 32 of the seed's bits, so among 10,000 streams there is
/// one chance in a hundred that two are the same: good for parameters and samples, not for simulations.
at::Generator stream_generator(uint64_t seed, std::string_view purpose, uint64_t index = 0);

}  // namespace lockstep::replica
