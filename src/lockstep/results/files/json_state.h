#pragma once

#include <optional>
#include <vector>

#include "lockstep/results/record/input_queue.h"
#include "lockstep/results/files/json_node.h"
#include "lockstep/results/files/json_text.h"
#include "lockstep/results/record/replica_state.h"

namespace lockstep::results {

/// What a row says of its replicas' state and of its input, to JSON and back; null stands for what was not
/// found.
Json replica_checks_json(const std::optional<ReplicaChecks>& checks);
std::optional<ReplicaChecks> read_replica_checks(const JsonNode& node);

Json memory_json(const std::optional<ReplicaMemory>& memory);
std::optional<ReplicaMemory> read_memory(const JsonNode& node);

Json input_queues_json(const std::vector<InputQueue>& queues);
std::vector<InputQueue> read_input_queues(const JsonNode& node);

Json tuning_json(const std::optional<BucketTuning>& tuning);
std::optional<BucketTuning> read_tuning(const JsonNode& node);

}  // namespace lockstep::results
