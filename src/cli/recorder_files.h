#pragma once

#include <span>
#include <utility>

namespace lockstep::cli {

/// Names and texts of the files of python/lockstep/recorder.
std::span<const std::pair<const char*, const char*>> recorder_files();

}  // namespace lockstep::cli
