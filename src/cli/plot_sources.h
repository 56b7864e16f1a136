#pragma once

#include <string>
#include <vector>

#include "lockstep/plots/sources.h"

namespace lockstep::cli {

/// Reads the files that `report` and `plot` draw. Throws Error that names the file for one that cannot be
/// read, and ConfigError where there is none at all.
plots::Sources read_sources(const std::vector<std::string>& runs, const std::vector<std::string>& published);

/// Writes to `path`, or to stdout for "-"; says on stderr what was written.
void write_result(const std::string& path, const std::string& text);

}  // namespace lockstep::cli
