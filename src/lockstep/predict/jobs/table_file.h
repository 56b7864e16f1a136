#pragma once

#include <filesystem>
#include <vector>

#include "lockstep/predict/jobs/collective_table.h"

namespace lockstep::predict {

/// Reads measured collectives: a JSON list of {ranks, collective, bytes, time_s}, alone or under the key
/// `collectives`, or the text that nccl-tests prints (its out-of-place times). Throws ConfigError that names
/// the file for one without any, and for times that are not above 0.
std::vector<CollectivePoint> read_collectives(const std::filesystem::path& path);

}  // namespace lockstep::predict
