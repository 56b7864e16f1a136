#include <fmt/format.h>

#include "lockstep/strategies/catalog.h"

namespace lockstep::strategies {
namespace {

Traits nothing_combined(const StrategyOptions&) {
  return {.combines = "nothing", .coupled = false, .communicates = false, .replicas_equal = false};
}

Traits with_batch_norm_of(const StrategyOptions& options, Traits traits) {
  if (options.sync_batch_norm) traits.batch_norm = "of the batches of all ranks";
  return traits;
}

Traits mean_of_gradients(const StrategyOptions& options) {
  Traits traits{.combines = "gradients, mean over all ranks"};
  if (options.powersgd > 0) {
    traits.combines += ", in a low rank with error feedback";
    traits.not_recordable = "the host orthogonalizes in every step";
  }
  return with_batch_norm_of(options, traits);
}

/// c10d's Reducer records events in its first ten iterations, which cannot be recorded into a CUDA graph.
Traits mean_of_reducers_gradients(const StrategyOptions& options) {
  Traits traits = mean_of_gradients(options);
  traits.steps_before_recording = 11;
  return traits;
}

/// The traits of a strategy that sends gradients in buckets.
template <Traits (*traits_of)(const StrategyOptions&)>
Traits in_buckets(const StrategyOptions& options) {
  Traits traits = traits_of(options);
  traits.has_buckets = true;
  return traits;
}

Traits mean_of_what_is_ready(const StrategyOptions& options) {
  Traits traits = mean_of_gradients(options);
  traits.not_recordable = "the host negotiates in every step which gradients are sent together";
  if (!options.deterministic) {
    traits.depends_on_timing = "the order of summation depends on timing; --deterministic fixes it";
  }
  return traits;
}

Traits mean_of_gradients_in_shards(const StrategyOptions& options) {
  Traits traits = mean_of_gradients(options);
  traits.has_buckets = options.shard != Shard::kParameters;
  if (options.shard != Shard::kOptimizer) {
    traits.not_recordable = "memory of gradients and parameters is released and taken again in every step";
  }
  return traits;
}

Traits gradients_at_owner(const StrategyOptions& options) {
  Traits traits;
  traits.combines = "gradients, mean over all ranks, at the variable's owner";
  if (options.parameter_device == ParameterDevice::kCpu) {
    traits.not_recordable = "the host updates the variables in every step";
    traits.no_loss_scale = "the GPU finds overflows, but the host applies the updates";
  }
  if (options.consistency == Consistency::kSync) return with_batch_norm_of(options, traits);
  traits.combines = "each rank's own gradients over the number of ranks, at the variable's owner";
  traits.coupled = false;
  traits.applications_per_step = "one per rank";
  traits.staleness = "measured";
  traits.replicas_equal = false;
  traits.depends_on_timing = "gradients are applied in the order in which they arrive";
  traits.applies_on_arrival = true;
  traits.updates_from_combined_gradients = false;
  traits.not_recordable = "owners apply gradients whenever they arrive";
  traits.no_loss_scale = "owners apply gradients before they could know of an overflow elsewhere";
  return traits;
}

Traits sum_on_device_0(const StrategyOptions&) {
  return {.combines = "gradients of one loss over the whole batch, sum over all devices",
          .communicates = false,
          .one_process = true,
          .batch_norm = "each device's own while training, device 0's kept",
          .not_recordable = "several threads drive the GPUs"};
}

Traits mean_of_parameters(const StrategyOptions& options) {
  const bool averages = options.outer_lr == 1 && options.outer_momentum == 0;
  const bool every_step = options.sync_every == 1;
  Traits traits{.combines = averages ? "parameters, mean over all ranks"
                                     : "parameters, moved by the mean move of all ranks",
                .steps_alone = options.sync_every,
                .not_recordable = "only some of the steps communicate"};
  if (!every_step) {
    const std::string steps = fmt::format("{} steps", options.sync_every);
    traits.combines += ", every " + steps;
    traits.no_joint_batch = "every rank takes " + steps + " with its own gradients";
  } else if (!averages) {
    traits.no_joint_batch = "the outer step has a rate or a momentum of its own";
  }
  return traits;
}

Traits mean_of_momenta(const StrategyOptions& options) {
  Traits traits;
  traits.combines =
      options.bsp_sync == BspSync::kAvg ? "parameters, mean over all ranks" : "momenta, mean over all ranks";
  traits.not_recordable = "the host waits at a barrier in every step";
  traits.updates_from_combined_gradients = false;
  if (options.bsp_sync == BspSync::kCdd) {
    traits.no_loss_scale =
        "momenta follow a rank's own gradients before it could know of an overflow elsewhere";
  }
  return with_batch_norm_of(options, traits);
}

}  // namespace

const char* to_string(Measured::Over over) {
  constexpr const char* kTexts[] = {"per step", "in all", "mean", "most"};
  return kTexts[static_cast<size_t>(over)];
}

const Registry<StrategyInfo>& registry() {
  static const Registry<StrategyInfo> strategies(
      "strategy", "lockstep info strategies",
      {{"single", {"one rank without a strategy: the baseline", &nothing_combined, &create_uncoupled}},
       {"independent",
        {"every rank trains alone at the same time, without communication: the limit of the machine",
         &nothing_combined, &create_uncoupled}},
       {"ddp",
        {"PyTorch's own c10d::Reducer: buckets of gradients, all-reduced during backward",
         &in_buckets<mean_of_reducers_gradients>, &create_ddp}},
       {"replicated",
        {"flat memory; buckets all-reduced during backward, the optimizer applied to each when it arrives",
         &in_buckets<mean_of_gradients>, &create_replicated}},
       {"sharded",
        {"ZeRO: buckets reduce-scattered during backward; every rank updates its share with its share of the "
         "momenta; parameters all-gathered. --shard gradients (zero2) and parameters (zero3, fsdp) divide "
         "these "
         "too",
         &mean_of_gradients_in_shards, &create_sharded}},
       {"parameter_server",
        {"one copy of the variables, owned by the ranks: gradients reduced to the owner, which updates once; "
         "parameters fetched before the next forward",
         &in_buckets<gradients_at_owner>, &create_parameter_server}},
       {"bsp",
        {"after Theano-MPI: a local update, a barrier, then every tensor exchanged on its own; no overlap",
         &mean_of_momenta, &create_bsp}},
       {"horovod",
        {"gradients announced by name; a background thread negotiates which are ready on every rank, fuses "
         "and all-reduces them",
         &mean_of_what_is_ready, &create_horovod}},
       {"local_sgd",
        {"every rank trains alone for --sync-every steps, then parameters are averaged; with an outer step, "
         "DiLoCo",
         &mean_of_parameters, &create_local_sgd}},
       {"data_parallel",
        {"after nn.DataParallel: one process with a thread per device; in every step batch and parameters "
         "are copied to every device, outputs and gradients gathered on device 0, which updates",
         &sum_on_device_0, &create_uncoupled}}});
  return strategies;
}

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
  if (options.hierarchical) {
    return ConfigError(
        "--hierarchical sums in the memory of hosts, and --device cuda keeps gradients on GPUs",
        "Leave it out: nccl divides its sums among hosts and GPUs by itself.");
  }
  if (options.powersgd > 0 && use.backend == "nccl") {
    return ConfigError(
        fmt::format("--wire powersgd:{} orthogonalizes in the host's memory, which nccl does not carry",
                    options.powersgd),
        "Use --backend gloo or mpi, or --wire bf16.");
  }
  if (options.sync_batch_norm) {
    return ConfigError("--sync-batch-norm computes on the CPU, and --device cuda has its images on GPUs",
                       "Use --device cpu, or leave it out.");
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

}  // namespace lockstep::strategies
