#include "lockstep/results/files/json_findings.h"

#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace lockstep::results {
namespace {

constexpr std::array<std::pair<const char*, double PhaseTimes::*>, 8> kPhases{{
    {"input_s", &PhaseTimes::input_s},
    {"forward_s", &PhaseTimes::forward_s},
    {"backward_s", &PhaseTimes::backward_s},
    {"waiting_s", &PhaseTimes::waiting_s},
    {"transfer_s", &PhaseTimes::transfer_s},
    {"optimizer_s", &PhaseTimes::optimizer_s},
    {"other_s", &PhaseTimes::other_s},
    {"step_s", &PhaseTimes::step_s},
}};

Json phases_json(const PhaseTimes& phases) {
  Json json;
  for (const auto& [name, member] : kPhases) json[name] = number(phases.*member);
  return json;
}

PhaseTimes read_phases(const JsonNode& node) {
  PhaseTimes phases;
  for (const auto& [name, member] : kPhases) phases.*member = node[name].number();
  return phases;
}

Json bucket_json(const BucketTimes& bucket) {
  return {{"bytes", bucket.bytes},
          {"ready_s", number(bucket.ready_s)},
          {"started_s", number(bucket.started_s)},
          {"all_arrived_s", number(bucket.all_arrived_s)},
          {"ended_s", number(bucket.ended_s)}};
}

BucketTimes read_bucket(const JsonNode& node) {
  return {.bytes = node["bytes"].whole_or(0),
          .ready_s = node["ready_s"].number(),
          .started_s = node["started_s"].number(),
          .all_arrived_s = node["all_arrived_s"].number(),
          .ended_s = node["ended_s"].number()};
}

RankBreakdown read_rank(const JsonNode& node) {
  RankBreakdown rank;
  rank.mean = read_phases(node["phases"]);
  for (const JsonNode& bucket : node["buckets"].elements()) rank.buckets.push_back(read_bucket(bucket));
  rank.clock_offset_s = node["clock_offset_s"].number_or(0);
  rank.clock_error_s = node["clock_error_s"].number_or(0);
  return rank;
}

std::vector<int64_t> read_bytes(const JsonNode& node) {
  std::vector<int64_t> bytes;
  if (node.missing()) return bytes;
  for (const JsonNode& rank : node.elements()) bytes.push_back(rank.whole_or(0));
  return bytes;
}

}  // namespace

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}
Json number(const std::optional<double>& value) {
  return value ? number(*value) : Json(nullptr);
}

Json interval_json(const std::optional<Interval>& interval) {
  if (!interval) return nullptr;
  if (!interval->missing.empty())
    return {{"low", nullptr}, {"high", nullptr}, {"missing", interval->missing}};
  return {{"low", number(interval->low)}, {"high", number(interval->high)}, {"missing", nullptr}};
}

Json breakdown_json(const std::optional<Breakdown>& breakdown) {
  if (!breakdown) return nullptr;
  Json ranks = Json::array();
  for (const RankBreakdown& rank : breakdown->ranks) {
    Json buckets = Json::array();
    for (const BucketTimes& bucket : rank.buckets) buckets.push_back(bucket_json(bucket));
    ranks.push_back({{"phases", phases_json(rank.mean)},
                     {"clock_offset_s", number(rank.clock_offset_s)},
                     {"clock_error_s", number(rank.clock_error_s)},
                     {"buckets", std::move(buckets)}});
  }
  return {{"steps", breakdown->steps},
          {"phases", phases_json(breakdown->mean)},
          {"waiting_half_width_s", number(breakdown->waiting_half_width_s)},
          {"transfer_half_width_s", number(breakdown->transfer_half_width_s)},
          {"communication_s", number(breakdown->communication_s)},
          {"straggler", breakdown->straggler ? Json(*breakdown->straggler) : Json(nullptr)},
          {"ranks", std::move(ranks)}};
}

Json factors_json(const std::optional<EfficiencyFactors>& factors) {
  if (!factors) return nullptr;
  const auto factor = [](double value, const std::optional<double>& half_width) -> Json {
    return {{"value", number(value)}, {"half_width", number(half_width)}};
  };
  return {{"machine", factor(factors->machine, factors->half_width.machine)},
          {"strategy", factor(factors->strategy, factors->half_width.strategy)},
          {"transfer", factor(factors->transfer, factors->half_width.transfer)},
          {"stragglers", factor(factors->stragglers, factors->half_width.stragglers)}};
}

Json resources_json(const std::optional<Resources>& resources) {
  if (!resources) return nullptr;
  return {{"peak_memory_bytes", resources->peak_memory_bytes},
          {"peak_device_memory_bytes", resources->peak_device_memory_bytes},
          {"processor_utilisation", number(resources->processor_utilisation)},
          {"communication_threads", number(resources->communication_threads)},
          {"other_load", number(resources->other_load)},
          {"mean_frequency_mhz", number(resources->mean_frequency_mhz)}};
}

Json own_measures_json(const std::vector<OwnMeasure>& measures) {
  Json list = Json::array();
  for (const OwnMeasure& measure : measures) {
    list.push_back({{"name", measure.name}, {"value", number(measure.value)}, {"over", measure.over}});
  }
  return list;
}

std::optional<Interval> read_interval(const JsonNode& node) {
  if (node.missing()) return std::nullopt;
  Interval interval;
  interval.missing = node["missing"].text_or("");
  if (!interval.missing.empty()) return interval;
  interval.low = node["low"].number();
  interval.high = node["high"].number();
  return interval;
}

std::optional<Breakdown> read_breakdown(const JsonNode& node, int ranks) {
  if (node.missing()) return std::nullopt;
  Breakdown breakdown;
  breakdown.steps = node["steps"].count_or(0, 0);
  breakdown.mean = read_phases(node["phases"]);
  breakdown.waiting_half_width_s = node["waiting_half_width_s"].optional_number();
  breakdown.transfer_half_width_s = node["transfer_half_width_s"].optional_number();
  breakdown.communication_s = node["communication_s"].number_or(0);
  for (const JsonNode& rank : node["ranks"].elements()) breakdown.ranks.push_back(read_rank(rank));
  if (breakdown.ranks.size() != static_cast<size_t>(ranks)) {
    node["ranks"].refuse(fmt::format("one entry per rank, {}", ranks));
  }
  if (const JsonNode straggler = node["straggler"]; !straggler.missing()) {
    breakdown.straggler = static_cast<int>(straggler.whole(0, ranks - 1));
  }
  return breakdown;
}

std::optional<EfficiencyFactors> read_factors(const JsonNode& node) {
  if (node.missing()) return std::nullopt;
  EfficiencyFactors factors;
  factors.machine = node["machine"]["value"].number();
  factors.strategy = node["strategy"]["value"].number();
  factors.transfer = node["transfer"]["value"].number();
  factors.stragglers = node["stragglers"]["value"].number();
  factors.half_width = {.machine = node["machine"]["half_width"].optional_number(),
                        .strategy = node["strategy"]["half_width"].optional_number(),
                        .transfer = node["transfer"]["half_width"].optional_number(),
                        .stragglers = node["stragglers"]["half_width"].optional_number()};
  return factors;
}

std::optional<Resources> read_resources(const JsonNode& node) {
  if (node.missing()) return std::nullopt;
  return Resources{.peak_memory_bytes = read_bytes(node["peak_memory_bytes"]),
                   .peak_device_memory_bytes = read_bytes(node["peak_device_memory_bytes"]),
                   .processor_utilisation = node["processor_utilisation"].optional_number(),
                   .communication_threads = node["communication_threads"].optional_number(),
                   .other_load = node["other_load"].optional_number(),
                   .mean_frequency_mhz = node["mean_frequency_mhz"].optional_number()};
}

std::vector<OwnMeasure> read_own_measures(const JsonNode& node) {
  std::vector<OwnMeasure> measures;
  if (node.missing()) return measures;
  for (const JsonNode& measure : node.elements()) {
    // null stands for what is not finite.
    if (measure["value"].missing()) continue;
    measures.push_back({measure["name"].text(), measure["value"].number(), measure["over"].text_or("")});
  }
  return measures;
}

}  // namespace lockstep::results
