#include "lockstep/results/json_state.h"

#include <nlohmann/json.hpp>

namespace lockstep::results {

Json replica_checks_json(const std::optional<ReplicaChecks>& checks) {
  if (!checks) return nullptr;
  const bool applies = checks->not_applicable.empty();
  return {{"every", checks->every},
          {"checks", checks->checks},
          {"not_applicable", applies ? Json(nullptr) : Json(checks->not_applicable)}};
}

std::optional<ReplicaChecks> read_replica_checks(const JsonNode& node) {
  if (node.missing()) return std::nullopt;
  return ReplicaChecks{.every = node["every"].count_or(0, 0),
                       .checks = node["checks"].count_or(0, 0),
                       .not_applicable = node["not_applicable"].text_or("")};
}

}  // namespace lockstep::results
