#pragma once

#include <string>
#include <vector>

#include "lockstep/base/registry.h"
#include "lockstep/train/rows/sweep.h"

#include "flags.h"

namespace lockstep::cli {

/// The settings of one published row as flags of `lockstep bench`.
struct Preset {
  /// The publication of the row.
  std::string source;
  /// "--model resnet50 --batch 32 ...": flags that take one value each.
  std::string flags;
  /// How lockstep differs from the source, in words.
  std::vector<std::string> differences;
};

/// All presets by name.
const Registry<Preset>& presets();

/// Sets the flags of the preset `name`, except those that the user gave or settled by another flag
/// (--global-batch for --batch; --max-time or --precision-target for --steps and --warmup), and those that
/// the chosen strategies do not have. Returns a text for the user. `flags` are `bench`'s after parsing,
/// `sweep` where they store. Throws ConfigError for an unknown name.
std::string apply_preset(const std::string& name, Flags& flags, const train::SweepOptions& sweep);

}  // namespace lockstep::cli
