#include "lockstep/results/files/json_layers.h"

#include "lockstep/results/files/json_findings.h"

namespace lockstep::results {

Json layers_json(const std::vector<LayerTimes>& layers) {
  Json list = Json::array();
  for (const LayerTimes& layer : layers) {
    list.push_back({{"name", layer.name},
                    {"what", layer.what},
                    {"forward_s", number(layer.forward_s)},
                    {"backward_s", number(layer.backward_s)},
                    {"multiply_adds", layer.multiply_adds},
                    {"backward_multiply_adds", layer.backward_multiply_adds},
                    {"bytes", layer.bytes},
                    {"backward_bytes", layer.backward_bytes},
                    {"limit_forward_s", number(layer.limit_forward_s)},
                    {"limit_backward_s", number(layer.limit_backward_s)}});
  }
  return list;
}

std::vector<LayerTimes> read_layers(const JsonNode& node) {
  std::vector<LayerTimes> layers;
  if (node.missing()) return layers;
  for (const JsonNode& layer : node.elements()) {
    layers.push_back({.name = layer["name"].text(),
                      .what = layer["what"].text_or(""),
                      .forward_s = layer["forward_s"].number(),
                      .backward_s = layer["backward_s"].number(),
                      .multiply_adds = layer["multiply_adds"].whole_or(0),
                      .backward_multiply_adds = layer["backward_multiply_adds"].whole_or(0),
                      .bytes = layer["bytes"].whole_or(0),
                      .backward_bytes = layer["backward_bytes"].whole_or(0),
                      .limit_forward_s = layer["limit_forward_s"].optional_number(),
                      .limit_backward_s = layer["limit_backward_s"].optional_number()});
  }
  return layers;
}

}  // namespace lockstep::results
