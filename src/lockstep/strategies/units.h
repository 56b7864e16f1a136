#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/replica/parameters.h"

namespace lockstep::strategies {

/// Groups parameters into units that are gathered, reduced and released together: indices into `parameters`,
/// each once, units in the order in which gradients become ready (that of registration, reversed). The same
/// names and shapes give the same units.
///
/// A unit is a block of the network, as names tell it ("layer1.0.conv1.weight" is of layer1.0), or neighbors
/// that have at most `cap_bytes` together. A larger block is divided into its layers, the largest of which
/// may exceed the cap. The last unit has at most 1 MiB where its block allows, because nothing is left to
/// hide its reduction. Within a unit, matrices come first.
std::vector<std::vector<size_t>> plan_units(const std::vector<replica::NamedTensor>& parameters,
                                            int64_t cap_bytes);

}  // namespace lockstep::strategies
