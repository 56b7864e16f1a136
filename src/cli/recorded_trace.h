#pragma once

#include <string>

#include "lockstep/recordings/import.h"

namespace lockstep::cli {

/// Imports a job and, unless `trace` is empty, writes there its steps above PyTorch's events, for Perfetto.
results::RunRecord import_with_trace(recordings::ImportOptions options, const std::string& trace);

}  // namespace lockstep::cli
