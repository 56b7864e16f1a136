#include "limit.h"

#include <algorithm>

#include <ATen/Parallel.h>

#include "lockstep/base/error.h"
#include "lockstep/kernels/kernel_choice.h"

namespace lockstep::limit {
namespace {

bool alike(const Layer& a, const Layer& b) {
  return a.kind == b.kind && a.ending == b.ending && a.bias == b.bias && a.window == b.window &&
         a.in == b.in && a.out == b.out && a.input_learns == b.input_learns;
}

/// Groups identical layers, so that each of them is measured once.
std::vector<LayerLimit> group(const std::vector<Layer>& layers) {
  std::vector<LayerLimit> groups;
  for (const Layer& layer : layers) {
    const auto same =
        std::ranges::find_if(groups, [&](const LayerLimit& other) { return alike(other.layer, layer); });
    LayerLimit& own = same == groups.end()
                          ? groups.emplace_back(LayerLimit{.layer = layer, .names = {}, .parts = {}})
                          : *same;
    own.names.push_back(layer.name);
  }
  return groups;
}

/// The time of the parts that are `wanted`.
template <typename Wanted>
double time_of(const std::vector<PartLimit>& parts, const Wanted& wanted) {
  double sum_s = 0;
  for (const PartLimit& part : parts) sum_s += wanted(part) ? part.time_s : 0;
  return sum_s;
}

}  // namespace

std::string_view to_string(Work work) {
  switch (work) {
    case Work::kConvolution:
      return "conv";
    case Work::kNorm:
      return "norm";
    case Work::kRelu:
      return "relu";
    case Work::kPool:
      return "pool";
    case Work::kResponseNorm:
      return "response norm";
    case Work::kLinear:
      return "linear";
  }
  return "";
}

std::string_view to_string(Direction direction) {
  switch (direction) {
    case Direction::kForward:
      return "forward";
    case Direction::kBackward:
      return "backward";
    case Direction::kBackwardData:
      return "backward data";
    case Direction::kBackwardWeights:
      return "backward weights";
  }
  return "";
}

double LayerLimit::forward_s() const {
  return time_of(parts, [](const PartLimit& part) { return part.direction == Direction::kForward; });
}

double LayerLimit::backward_s() const {
  return time_of(parts, [](const PartLimit& part) { return part.direction != Direction::kForward; });
}

double Limit::total_s(Work work, Direction direction) const {
  double sum_s = 0;
  for (const LayerLimit& layer : layers) {
    sum_s += static_cast<double>(layer.count()) * time_of(layer.parts, [&](const PartLimit& part) {
               return part.work == work && part.direction == direction;
             });
  }
  return sum_s;
}

double Limit::step_s() const {
  double sum_s = 0;
  for (const LayerLimit& layer : layers) {
    sum_s += (layer.forward_s() + layer.backward_s()) * static_cast<double>(layer.count());
  }
  return sum_s;
}

void require_limit() {
  if (const std::string reason = kernels::why_no_fused_kernels(); !reason.empty())
    throw BackendMissing("there is no limit to measure: " + reason, "Install oneDNN 3 with 'make setup'.");
}

Limit measure_limit(const std::vector<Layer>& layers, const LimitOptions& options) {
  require_limit();
  Limit limit{.batch = layers.empty() ? 0 : layers.front().in[0],
              .bf16 = options.bf16,
              .threads = at::get_num_threads(),
              .layers = group(layers)};
  for (size_t i = 0; i < limit.layers.size(); ++i) {
    if (options.progress) options.progress(i, limit.layers.size());
    limit.layers[i].parts = measure_parts(limit.layers[i].layer, options);
  }
  return limit;
}

}  // namespace lockstep::limit
