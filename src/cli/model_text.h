#pragma once

#include <string>

namespace lockstep::cli {

/// The text of `info model NAME` about a built-in network or one from a file: its samples and batches, and
/// what decides how it scales. Throws ConfigError.
std::string model_text(const std::string& name);

}  // namespace lockstep::cli
