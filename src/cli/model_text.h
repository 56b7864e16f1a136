#pragma once

#include <string>

namespace lockstep::cli {

/// What `info model NAME` prints of a built-in network or of one from a file: its samples and batches, and
/// what decides how it scales. Throws ConfigError.
std::string model_text(const std::string& name);

}  // namespace lockstep::cli
