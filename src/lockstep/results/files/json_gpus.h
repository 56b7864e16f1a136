#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "lockstep/results/files/json_node.h"
#include "lockstep/results/files/json_text.h"
#include "lockstep/topology/gpu_use.h"
#include "lockstep/topology/rank_gpus.h"

namespace lockstep::results {

// GPUs to JSON and back; docs/json.md describes it.

Json rank_gpus_json(const std::vector<topology::RankGpu>& gpus);
/// Missing: none.
std::vector<topology::RankGpu> read_rank_gpus(const JsonNode& node);

Json gpu_use_json(const std::vector<topology::GpuUse>& gpus);
/// Missing: none.
std::vector<topology::GpuUse> read_gpu_use(const JsonNode& node);

/// For sending them from rank to rank, and back; Error for any other text.
std::string rank_gpu_to_json(const topology::RankGpu& gpu);
topology::RankGpu rank_gpu_from_json(std::string_view text);
std::string gpu_use_to_json(const std::vector<topology::GpuUse>& gpus);
std::vector<topology::GpuUse> gpu_use_from_json(std::string_view text);

}  // namespace lockstep::results
