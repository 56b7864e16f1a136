#pragma once

#include <string>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// The whole record as docs/json.md describes it: at the top level what PyTorch's diff.py reads, the rest
/// under the key `lockstep`. Numbers are numbers, null where missing or not finite; invalid UTF-8 is
/// replaced.
std::string to_json(const RunRecord& record);

/// One machine alone, for sending it from host to host.
std::string machine_to_json(const Machine& machine);

}  // namespace lockstep::results
