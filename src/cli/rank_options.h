#pragma once

#include <optional>
#include <string>

#include <CLI/App.hpp>

#include "lockstep/launch/rank_environment.h"
#include "lockstep/replica/accelerator.h"

namespace lockstep::cli {

/// How ranks come to be, what they compute on and how they talk to each other: what every command that has
/// ranks is told.
struct RankOptions {
  /// cpu, cuda, or auto: GPUs where LibTorch can use some.
  std::string device = "auto";
  /// Whether several ranks may have one GPU.
  bool share_device = false;
  /// Empty: what suits the device.
  std::string backend;
  std::string launch = "auto";
  std::string bind = "core";
  std::string interface;
  int threads = 0;
  double timeout_s = 30;

  bool on_gpus() const { return device == "cuda"; }
};

/// The values that `options` has are the defaults.
void add_rank_flags(CLI::App& command, RankOptions& options);

/// That every name is known and every number possible, alone. Throws ConfigError.
void check_rank_options(const RankOptions& options);

/// Whether it has to be found out what GPUs LibTorch can use, which takes seconds: they are asked for, or may
/// be had by `auto`.
bool may_use_gpus(const RankOptions& options);

/// Puts in place of `auto`, and of what was not given, what follows from what started this process and from
/// the GPUs that LibTorch can use. Throws ConfigError for what cannot go together.
void settle_rank_options(RankOptions& options, const std::optional<launch::RankEnvironment>& environment,
                         const replica::AcceleratorStatus& gpus);

}  // namespace lockstep::cli
