#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

/// The seed of one independent stream of random numbers, a function of its arguments and nothing else.
/// Streams are named by their purpose ("layer1.0.conv1.weight", "image", "label") and counted by `index`
/// (a sample's place in the global batch, a step), so the values are the same in any split over ranks.
uint64_t stream_seed(uint64_t seed, std::string_view purpose, uint64_t index = 0);

}  // namespace lockstep
