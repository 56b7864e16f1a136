#pragma once

#include <optional>

#include <nlohmann/json.hpp>

#include "lockstep/results/files/json_node.h"
#include "lockstep/results/files/json_text.h"
#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

// How what explains a run stands in a file, in both directions; docs/json.md describes it. What is missing is
// null.

Json interval_json(const std::optional<Interval>& interval);
Json breakdown_json(const std::optional<Breakdown>& breakdown);
Json factors_json(const std::optional<EfficiencyFactors>& factors);
Json resources_json(const std::optional<Resources>& resources);
Json own_measures_json(const std::vector<OwnMeasure>& measures);

std::optional<Interval> read_interval(const JsonNode& node);
/// `ranks`: of the run; a breakdown of another number of ranks is refused.
std::optional<Breakdown> read_breakdown(const JsonNode& node, int ranks);
std::optional<EfficiencyFactors> read_factors(const JsonNode& node);
std::optional<Resources> read_resources(const JsonNode& node);
std::vector<OwnMeasure> read_own_measures(const JsonNode& node);

/// null for what is not finite.
Json number(double value);
Json number(const std::optional<double>& value);

}  // namespace lockstep::results
