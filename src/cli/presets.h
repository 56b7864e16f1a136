#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/registry.h"
#include "lockstep/train/rows/sweep.h"

#include "flags.h"

namespace lockstep::cli {

/// The settings of one published row as flags of `lockstep bench`.
struct Preset {
  /// The publication of the row.
  std::string source;
  /// Flags with their values.
  std::vector<std::pair<std::string, std::string>> flags;
  /// How lockstep differs from the source, in words.
  std::vector<std::string> differences;
};

/// All presets by name.
const Registry<Preset>& presets();

/// "--model resnet50 --batch 32".
std::string flags_text(const Preset& preset);

/// Sets the flags of the preset `name`, except those that the user gave or settled by another flag
/// (--global-batch for --batch; --max-time or --precision-target for --steps and --warmup), and those that
/// the chosen strategies do not know. Returns what to tell the user. `flags` are `bench`'s after parsing,
/// `sweep` where they store. Throws ConfigError for an unknown name.
std::string apply_preset(const std::string& name, Flags& flags, const train::SweepOptions& sweep);

}  // namespace lockstep::cli
