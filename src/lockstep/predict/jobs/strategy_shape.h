#pragma once

#include <optional>
#include <string>

#include "lockstep/predict/jobs/collectives.h"

namespace lockstep::predict {

/// What a strategy exchanges in a step, and when.
struct StrategyShape {
  /// Empty: nothing is exchanged.
  std::optional<CollectiveKind> gradients = {};
  /// Of parameters, after the update of each bucket, or all of them before forward.
  std::optional<CollectiveKind> values = {};
  bool fetches_before_forward = false;
  /// Gradients are sent during backward.
  bool overlaps = true;
  /// Each bucket is updated when it arrives, while later ones travel.
  bool updates_on_arrival = false;
  /// Each rank updates its share of the parameters only.
  bool divides_update = false;
  /// Every tensor travels on its own.
  bool per_tensor = false;
  /// Ranks wait for each other in every step.
  bool coupled = true;
  /// Owners answer each rank by itself.
  bool has_servers = false;
  bool one_server = false;
  /// One process copies to and from all devices (data_parallel).
  bool one_process = false;
  /// Whether it has --bucket-mb, and --wire.
  bool has_buckets = true;
  bool has_wire = true;
};

/// Shape of a strategy with options as on a command line ("--overlap off"), of which it ignores those of
/// others; empty for a name that lockstep lacks, as a recorded training may have.
std::optional<StrategyShape> strategy_shape(const std::string& strategy, const std::string& options);

/// Bytes of a gradient on a strategy's wire relative to fp32, by those of the options `--wire` and
/// `--exchange` that it has.
double wire_share(const std::string& strategy, const std::string& options);

}  // namespace lockstep::predict
