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

/// Time of an all-reduce on a cluster, by ranks and bytes.
struct AllReducePoint {
  int ranks = 0;
  double bytes = 0;
  double seconds = 0;
};

/// Reads a table in the columns of data/published/sources/collectives_oci.csv: `operation`, `bytes`,
/// `out_of_place_us`, and `ranks` or a `setup` that begins with "16 ranks". Other operations than all-reduce
/// are left out. Sorted by ranks, then bytes. Throws ConfigError that names the file and the line.
std::vector<AllReducePoint> read_all_reduce(const std::filesystem::path& path);

}  // namespace lockstep::predict
