#include "lockstep/strategies/gpu_support.h"

#include <fmt/format.h>

namespace lockstep::strategies {

std::optional<ConfigError> why_not_on_gpu(const std::string& strategy, const StrategyOptions& options,
                                          const GpuUse& use) {
  const Traits traits = registry().get(strategy).traits(options);
  const bool shares = use.share_gpus && use.ranks > 1;
  // LibTorch runs all backward passes of a process on one GPU in one thread. Two strategies wait there for
  // work that needs the same thread: ddp's Reducer for its last bucket, device 0 of data_parallel for the
  // other devices' backward passes.
  if (strategy == "ddp" && shares && use.are_threads) {
    return ConfigError(
        "ddp cannot have several ranks of one process on one GPU: LibTorch runs their backward passes in one "
        "thread, where the first that waits for the others keeps them from going on",
        "Use --launch processes.");
  }
  if (traits.one_process && shares) {
    return ConfigError(fmt::format("{} needs a GPU for every rank, in one process", strategy),
                       "Use fewer --ranks, or another strategy.");
  }
  if (traits.applies_on_arrival && use.backend == "nccl") {
    return ConfigError(
        fmt::format("{} --consistency async needs messages from whoever is ready, which nccl does not have",
                    strategy),
        "Use --backend gloo or mpi, or --consistency sync.");
  }
  if (use.scales_loss && !traits.no_loss_scale.empty()) {
    return ConfigError(
        fmt::format("{} cannot train with --precision fp16: {}", strategy, traits.no_loss_scale),
        "Use --precision bf16, or another strategy.");
  }
  return std::nullopt;
}

std::string why_not_recordable(const Traits& traits, const comm::Communicator* communicator) {
  if (!traits.not_recordable.empty()) return traits.not_recordable;
  if (!traits.communicates || communicator == nullptr || communicator->capabilities().gpu_queues) return "";
  return fmt::format("over {} the host waits in every step", communicator->backend());
}

}  // namespace lockstep::strategies
