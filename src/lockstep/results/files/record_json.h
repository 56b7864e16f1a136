#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// The whole record as docs/json.md describes it: at the top level what PyTorch's diff.py reads, the rest
/// under the key `lockstep`. Numbers are numbers, null where missing or not finite; invalid UTF-8 is
/// replaced.
std::string to_json(const RunRecord& record);

/// Every key of to_json and of system_to_json with its type, for people.
std::string json_reference();

/// One machine alone, for sending it from host to host.
std::string machine_to_json(const Machine& machine);

/// Reads what to_json wrote, or a file of PyTorch's DDP benchmark (source = "pytorch", runs with `pooled`
/// samples). Unknown keys are ignored; a key of another type than docs/json.md says, a key that is missing
/// without which a run means nothing, text that is empty, cut off, no JSON, some other JSON, or of a newer
/// schema is an Error that names `name` (the file), the key, and what was expected.
RunRecord from_json(std::string_view text, std::string_view name);

/// The same for a file. Throws Error also when it cannot be read.
RunRecord read_record(const std::filesystem::path& path);

/// The machine that machine_to_json wrote.
Machine machine_from_json(std::string_view text);

}  // namespace lockstep::results
