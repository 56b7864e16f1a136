#pragma once

#include <optional>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/strategies/strategy.h"

namespace lockstep::strategies {

/// How the ranks of a run would use GPUs.
struct GpuUse {
  /// Of their communicator.
  std::string backend;
  int ranks = 1;
  /// They are threads of one process (--launch threads).
  bool are_threads = false;
  /// Several of them have the same GPU (--share-device).
  bool share_gpus = false;
  /// With --precision fp16 (replica::needs_loss_scale).
  bool scales_loss = false;
};

/// Why a strategy cannot train so, and what the user can do; nothing where it can.
std::optional<ConfigError> why_not_on_gpu(const std::string& strategy, const StrategyOptions& options,
                                          const GpuUse& use);

/// Why a step of a strategy with these traits cannot be recorded into a CUDA graph when it communicates over
/// `communicator` (null: not at all); empty where it can be, after Traits::steps_before_recording.
std::string why_not_recordable(const Traits& traits, const comm::Communicator* communicator);

}  // namespace lockstep::strategies
