#include "row_limits.h"

#include <fmt/format.h>

#include "lockstep/replica/precision.h"

#include "console.h"
#include "subgroups.h"

namespace lockstep::cli {
namespace {

limit::Limit measure(const train::RowPlan& row) {
  const bool bf16 = replica::parse_precision(row.precision) == replica::Precision::kBf16;
  return limit::measure_limit(
      models::list_layers(models::registry().get(row.model), row.image_size, row.batch_per_rank),
      {.bf16 = bf16});
}

}  // namespace

const limit::Limit* RowLimits::of(const train::RowPlan& row) {
  const std::string key =
      fmt::format("limit/{}/{}/{}/{}", row.model, row.batch_per_rank, row.image_size, row.precision);
  if (rank_.environment.rank != 0) {
    rank_.progress.begin("waiting for the limit of " + row.model);
    rank_.store.get(key, kUntilRowEnds);
    return nullptr;
  }
  if (const auto known = limits_.find(key); known != limits_.end()) return &known->second;
  rank_.progress.begin("limit of " + row.model);
  print_note(fmt::format("measuring the limit of {} with batch {} in {}", row.model, row.batch_per_rank,
                         row.precision));
  const auto [measured, ignored] = limits_.emplace(key, measure(row));
  rank_.store.set(key, "1");
  return &measured->second;
}

void add_limits(std::vector<results::LayerTimes>& layers, const limit::Limit& limit) {
  for (results::LayerTimes& layer : layers) {
    const limit::LayerLimit* least = limit.find(layer.name);
    if (least == nullptr || least->parts.empty()) continue;
    layer.limit_forward_s = least->forward_s();
    layer.limit_backward_s = least->backward_s();
  }
}

}  // namespace lockstep::cli
