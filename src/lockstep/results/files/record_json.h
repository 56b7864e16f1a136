#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// The whole record as docs/json.md describes it: the keys of PyTorch's diff.py at the top level, the rest
/// under the key `lockstep`. Numbers are numbers, null where missing or not finite; invalid UTF-8 is
/// replaced.
std::string to_json(const RunRecord& record);

/// As docs/training.md describes it. Numbers that are not finite or not there are null.
std::string to_json(const TrainingRecord& record);

/// Every key of to_json and of system_to_json with its type, for people.
std::string json_reference();

/// Reads a file of to_json (of a training: no runs, and `training`), or of PyTorch's DDP benchmark (source =
/// "pytorch", runs with `pooled` samples). Unknown keys are ignored; a key of another type than docs/json.md
/// says, a key that is missing without which a run means nothing, text that is empty, cut off, no JSON, some
/// other JSON, or of a newer schema is an Error that names `name` (the file), the key, and what was expected.
RunRecord from_json(std::string_view text, std::string_view name);

/// The same for a file, "-" for standard input. Throws Error also when it cannot be read.
RunRecord read_record(const std::filesystem::path& path);

/// A header row, then one row per run, without lists such as the samples; units in the names, empty fields
/// for missing values, quoting as RFC 4180, lines end with "\n".
std::string to_csv(const RunRecord& record);

}  // namespace lockstep::results
