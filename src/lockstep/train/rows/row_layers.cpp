#include "lockstep/train/rows/row_layers.h"

#include <algorithm>

#include "lockstep/kernels/layer_clock.h"
#include "lockstep/measure/percentiles.h"
#include "lockstep/train/rows/row_trainee.h"

namespace lockstep::train {
namespace {

using kernels::Layer;
using kernels::LayerClock;

constexpr int kWarmup = 3;
constexpr int kSteps = 10;

/// Median over the passes after warm-up.
double median_s(const LayerClock& clock, size_t warmup, size_t layer, double LayerClock::Times::*time) {
  std::vector<double> times_s;
  for (size_t pass = warmup; pass < clock.passes().size(); ++pass) {
    times_s.push_back(clock.passes()[pass][layer].*time);
  }
  std::ranges::sort(times_s);
  return measure::percentile(times_s, 50);
}

results::LayerTimes times_of(const Layer& layer, int64_t bytes_per_value) {
  const int64_t image_values = layer.in_values() + layer.out_values();
  const bool adds = layer.form.ending == kernels::LayerEnding::kNormAddRelu;
  results::LayerTimes times;
  times.name = layer.form.name;
  times.what = layer.text();
  times.multiply_adds = layer.multiply_adds();
  times.backward_multiply_adds = layer.backward_multiply_adds();
  times.bytes = bytes_per_value * (image_values + layer.weights() + (adds ? layer.out_values() : 0));
  times.backward_bytes =
      bytes_per_value * (image_values + 2 * layer.weights() + (layer.input_learns ? layer.in_values() : 0));
  return times;
}

}  // namespace

std::vector<results::LayerTimes> time_layers(const RowPlan& row, const RankGroup& group,
                                             launch::Progress& progress) {
  LayerClock clock;
  RowTrainee trainee(row, group);
  trainee.time_layers(&clock);
  const PacingOptions pacing{.warmup_steps = kWarmup, .steps = kSteps};
  trainee.train(pacing, /*coupled=*/true, /*stamp_phases=*/true, progress);
  if (group.rank() != 0) return {};

  const int64_t bytes_per_value = replica::bytes_per_number(replica::parse_precision(row.precision));
  const auto warmup = static_cast<size_t>(kWarmup * row.accumulate);
  std::vector<results::LayerTimes> all;
  for (size_t i = 0; i < clock.layers().size(); ++i) {
    results::LayerTimes& times = all.emplace_back(times_of(clock.layers()[i], bytes_per_value));
    times.forward_s = median_s(clock, warmup, i, &LayerClock::Times::forward_s);
    times.backward_s = median_s(clock, warmup, i, &LayerClock::Times::backward_s);
  }
  return all;
}

}  // namespace lockstep::train
