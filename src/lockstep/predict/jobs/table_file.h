#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/predict/jobs/collective_table.h"

namespace lockstep::predict {

/// Reads measured collectives: a file of `lockstep collectives --json`, a JSON list of {ranks, collective,
/// bytes, time_s}, alone or under the key `collectives`, a comma-separated table with these columns (or those
/// of data/published/sources/collectives_oci.csv), or the text that nccl-tests prints. Of measured rows those
/// one at a time and beside no computing count, out of place where they were measured so; of several backends
/// those over `backend`; none whose results were wrong. Of a test that was run again, the first one counts.
/// Rows left out are told to `note`, as sentences. Throws ConfigError that names the file and what it has for
/// one without any, for a text whose bandwidths contradict it, and for times that are not above 0.
std::vector<CollectivePoint> read_collectives(const std::filesystem::path& path, const std::string& backend,
                                              const std::function<void(const std::string&)>& note);

}  // namespace lockstep::predict
