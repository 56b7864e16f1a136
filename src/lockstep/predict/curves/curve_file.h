#pragma once

#include <filesystem>
#include <vector>

#include "lockstep/predict/curves/curve.h"

namespace lockstep::predict {

/// Reads curves from a table in the columns of data/published/sources: `gpus` (or ranks, workers), a rate or
/// seconds, and what describes the job. Rows of one `curve` belong together; without that column, rows that
/// agree in the columns that describe the job. Repeated counts become their median rate. Throws ConfigError
/// that names the file and the line.
std::vector<Curve> read_curves(const std::filesystem::path& path);

}  // namespace lockstep::predict
