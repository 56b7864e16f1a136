#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "lockstep/results/files/json_node.h"
#include "lockstep/results/files/json_text.h"
#include "lockstep/results/record/rank_gpus.h"
#include "lockstep/topology/gpu_use.h"

namespace lockstep::results {

// GPUs to JSON and back; docs/json.md describes it.

Json rank_gpus_json(const std::vector<RankGpu>& gpus);
/// Missing: none.
std::vector<RankGpu> read_rank_gpus(const JsonNode& node);

Json gpu_use_json(const std::vector<topology::GpuUse>& gpus);
/// Missing: none.
std::vector<topology::GpuUse> read_gpu_use(const JsonNode& node);

/// For sending them from rank to rank, and back; Error for any other text.
std::string rank_gpu_to_json(const RankGpu& gpu);
RankGpu rank_gpu_from_json(std::string_view text);
std::string gpu_use_to_json(const std::vector<topology::GpuUse>& gpus);
std::vector<topology::GpuUse> gpu_use_from_json(std::string_view text);

}  // namespace lockstep::results
