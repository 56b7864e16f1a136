#pragma once

#include <vector>

#include "lockstep/results/files/json_node.h"
#include "lockstep/results/files/json_text.h"
#include "lockstep/results/record/layer_times.h"

namespace lockstep::results {

/// A row's layers to JSON and back, in the order of the network.
Json layers_json(const std::vector<LayerTimes>& layers);
/// Missing: none.
std::vector<LayerTimes> read_layers(const JsonNode& node);

}  // namespace lockstep::results
