#pragma once

#include <optional>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/strategies/strategy.h"

namespace lockstep::strategies {

/// The way in which the ranks of a run would use GPUs.
struct GpuUse {
  /// The backend of their communicator.
  std::string backend;
  int ranks = 1;
  /// Whether ranks are threads of one process (--launch threads).
  bool are_threads = false;
  /// Whether several ranks have the same GPU (--share-device).
  bool share_gpus = false;
  /// Whether the loss is scaled (--precision fp16, replica::needs_loss_scale()).
  bool scales_loss = false;
};

/// The reason why a strategy cannot train in this way, with advice; absent if it can.
std::optional<ConfigError> why_not_on_gpu(const std::string& strategy, const StrategyOptions& options,
                                          const GpuUse& use);

/// The reason why a step of a strategy with these traits cannot be recorded into a CUDA graph if it
/// communicates over `communicator` (null: it does not communicate); empty if it can be, after
/// Traits::steps_before_recording steps.
std::string why_not_recordable(const Traits& traits, const comm::Communicator* communicator);

}  // namespace lockstep::strategies
