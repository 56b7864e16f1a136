#include "lockstep/results/files/json_state.h"

#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "lockstep/results/files/json_findings.h"

namespace lockstep::results {
namespace {

constexpr std::array<std::pair<const char*, ByteRange ReplicaMemory::*>, 5> kMemory{{
    {"parameters", &ReplicaMemory::parameters},
    {"gradients", &ReplicaMemory::gradients},
    {"momenta", &ReplicaMemory::momenta},
    {"buffers", &ReplicaMemory::buffers},
    {"total", &ReplicaMemory::total},
}};

}  // namespace

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

Json memory_json(const std::optional<ReplicaMemory>& memory) {
  if (!memory) return nullptr;
  Json json;
  for (const auto& [name, member] : kMemory) {
    json[name] = {{"min_bytes", ((*memory).*member).least}, {"max_bytes", ((*memory).*member).most}};
  }
  return json;
}

std::optional<ReplicaMemory> read_memory(const JsonNode& node) {
  if (node.missing()) return std::nullopt;
  ReplicaMemory memory;
  for (const auto& [name, member] : kMemory) {
    const JsonNode range = node[name];
    if (range.missing()) continue;
    memory.*member = {range["min_bytes"].whole_or(0), range["max_bytes"].whole_or(0)};
  }
  return memory;
}

Json input_queues_json(const std::vector<InputQueue>& queues) {
  Json list = Json::array();
  for (const InputQueue& queue : queues) {
    list.push_back({{"name", queue.name},
                    {"capacity", queue.capacity},
                    {"producers", queue.producers},
                    {"batches", queue.batches},
                    {"depth", number(queue.depth)},
                    {"empty", queue.empty},
                    {"empty_s", number(queue.empty_s)},
                    {"full", queue.full},
                    {"full_s", number(queue.full_s)},
                    {"images_per_s", number(queue.images_per_s)},
                    {"gb_per_s", number(queue.gb_per_s)},
                    {"producer_s", number(queue.producer_s)}});
  }
  return list;
}

std::vector<InputQueue> read_input_queues(const JsonNode& node) {
  std::vector<InputQueue> queues;
  if (node.missing()) return queues;
  for (const JsonNode& queue : node.elements()) {
    queues.push_back({.name = queue["name"].text(),
                      .capacity = queue["capacity"].count_or(0, 0),
                      .producers = queue["producers"].count_or(0, 1),
                      .batches = queue["batches"].whole_or(0),
                      .depth = queue["depth"].number_or(0),
                      .empty = queue["empty"].whole_or(0),
                      .empty_s = queue["empty_s"].number_or(0),
                      .full = queue["full"].whole_or(0),
                      .full_s = queue["full_s"].number_or(0),
                      .images_per_s = queue["images_per_s"].number_or(0),
                      .gb_per_s = queue["gb_per_s"].number_or(0),
                      .producer_s = queue["producer_s"].optional_number()});
  }
  return queues;
}

Json tuning_json(const std::optional<BucketTuning>& tuning) {
  if (!tuning) return nullptr;
  Json candidates = Json::array();
  for (const BucketCandidate& candidate : tuning->candidates) {
    candidates.push_back({{"bucket_mb", number(candidate.bucket_mb)},
                          {"steps", candidate.steps},
                          {"blocks", candidate.blocks},
                          {"step_p50_s", number(candidate.step_s)},
                          {"fastest_block_s", number(candidate.fastest_block_s)},
                          {"slowest_block_s", number(candidate.slowest_block_s)}});
  }
  return {{"budget_s", number(tuning->budget_s)},
          {"candidates", std::move(candidates)},
          {"chosen_mb", number(tuning->chosen_mb)},
          {"default_mb", number(tuning->default_mb)},
          {"best_mb", number(tuning->best_mb)},
          {"speedup_of_best", number(tuning->speedup)},
          {"speedup_low", number(tuning->speedup_low)},
          {"speedup_high", number(tuning->speedup_high)},
          {"reason", tuning->reason}};
}

std::optional<BucketTuning> read_tuning(const JsonNode& node) {
  if (node.missing()) return std::nullopt;
  BucketTuning tuning;
  tuning.budget_s = node["budget_s"].number_or(0);
  for (const JsonNode& candidate : node["candidates"].elements()) {
    tuning.candidates.push_back({.bucket_mb = candidate["bucket_mb"].number(),
                                 .steps = candidate["steps"].count_or(0, 0),
                                 .blocks = candidate["blocks"].count_or(0, 0),
                                 .step_s = candidate["step_p50_s"].number_or(0),
                                 .fastest_block_s = candidate["fastest_block_s"].number_or(0),
                                 .slowest_block_s = candidate["slowest_block_s"].number_or(0)});
  }
  tuning.chosen_mb = node["chosen_mb"].number();
  tuning.default_mb = node["default_mb"].number_or(0);
  tuning.best_mb = node["best_mb"].number_or(0);
  tuning.speedup = node["speedup_of_best"].optional_number();
  tuning.speedup_low = node["speedup_low"].optional_number();
  tuning.speedup_high = node["speedup_high"].optional_number();
  tuning.reason = node["reason"].text_or("");
  return tuning;
}

}  // namespace lockstep::results
