#pragma once

#include <string>
#include <utility>
#include <vector>

#include <CLI/App.hpp>

#include "lockstep/base/registry.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::cli {

/// What one published row was measured with, in flags of `lockstep bench`.
struct Preset {
  /// Where the row stands.
  std::string source;
  /// Flags with their values.
  std::vector<std::pair<std::string, std::string>> flags;
  /// What is done otherwise here than there.
  std::vector<std::string> differences;
};

/// All presets by name.
const Registry<Preset>& presets();

/// "--model resnet50 --batch 32".
std::string flags_text(const Preset& preset);

/// Gives every flag of the preset `name` its value, but those that the user gave or chose otherwise: a flag
/// that stands in for another (--global-batch for --batch, --max-time or --precision-target for --steps and
/// --warmup), or a strategy that does not know the flag. Returns what to tell the user. `command` is `bench`
/// after parsing, `sweep` where its flags go. Throws ConfigError for an unknown name.
std::string apply_preset(const std::string& name, CLI::App& command, const train::SweepOptions& sweep);

}  // namespace lockstep::cli
