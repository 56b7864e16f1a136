#include "lockstep/train/rows/row_rules.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "lockstep/base/names.h"
#include "lockstep/base/rule.h"
#include "lockstep/cuda_kernels/plugin.h"
#include "lockstep/inputs/input.h"
#include "lockstep/kernels/kernel_choice.h"
#include "lockstep/models/model.h"
#include "lockstep/replica/precision.h"
#include "lockstep/train/rows/agreement.h"
#include "lockstep/train/rows/row_input.h"
#include "lockstep/train/rows/tune.h"

namespace lockstep::train {
namespace {

/// Other names that people write for `cuda`. By edit distance, `gpu` would be taken for `cpu`.
constexpr std::array<std::string_view, 4> kGpuNames{"gpu", "GPU", "CUDA", "nvidia"};

void check_nesterov(const SweepOptions& sweep) {
  if (!sweep.common.nesterov || sweep.common.momentum != 0) return;
  throw ConfigError("--nesterov needs a momentum, but --momentum is 0",
                    "Leave --nesterov out, or give a --momentum greater than 0.");
}

void check_tuning(const SweepOptions& sweep) {
  if (sweep.tune.empty()) {
    if (!sweep.tune_budget_s) return;
    throw ConfigError("--tune-budget means nothing without --tune", "Add --tune buckets.");
  }
  if (sweep.bucket_mb == SweepOptions().bucket_mb) return;
  throw ConfigError("--tune buckets and --bucket-mb exclude each other",
                    "--tune buckets finds the cap; --bucket-mb says what it is.");
}

void check_one_scaling(const SweepOptions& sweep) {
  if (sweep.batches.empty() || sweep.global_batches.empty()) return;
  throw ConfigError("--batch (per rank) and --global-batch (of the whole job) exclude each other",
                    "Use --batch for weak scaling, --global-batch for strong scaling.");
}

void check_strategies(const SweepOptions& sweep) {
  for (const std::string& name : sweep.strategies) {
    if (name != kAllStrategies) strategies::registry().get(strategies::resolve(name, {}).strategy);
  }
}

void check_precisions(const SweepOptions& sweep) {
  const auto device = sweep.common.device == kCuda ? c10::DeviceType::CUDA : c10::DeviceType::CPU;
  for (const std::string& name : sweep.precisions) replica::check_precision(name, device);
}

void check_cuda_graph(const SweepOptions& sweep) {
  if (!sweep.common.cuda_graph) return;
  if (sweep.common.device != kCuda) {
    throw ConfigError("--cuda-graph records the work of a GPU, and --device cpu has none",
                      "Use --device cuda.");
  }
  if (sweep.common.accumulate > 1) {
    throw ConfigError(
        fmt::format("--cuda-graph records a step of one batch, and --accumulate {} makes it several",
                    sweep.common.accumulate),
        "Leave one of the two out.");
  }
  if (sweep.verify_every) {
    throw ConfigError(
        "--verify-every looks at the replicas between steps, which a recorded step does not stop for",
        "Leave one of the two out; what is verified without --cuda-graph holds for the same steps.");
  }
}

void check_kernels(const SweepOptions& sweep) {
  for (const std::string& name : sweep.kernels) {
    if (name == kernels::kAuto) {
      if (std::ranges::count(sweep.kernels, name) == std::ssize(sweep.kernels)) continue;
      throw ConfigError("--kernels auto is one of the others",
                        "Use auto alone for the faster ones, or aten,fused for both.");
    }
    if (kernels::parse_kernels(name) == kernels::KernelChoice::kAten) continue;
    if (sweep.common.device == kCuda) {
      cuda_kernels::open_kernels();
      continue;
    }
    const std::string why = kernels::why_no_fused_kernels();
    if (why.empty()) continue;
    throw BackendMissing(fmt::format("--kernels {} cannot be had: {}", name, why),
                         kernels::kNoFusedKernelsAdvice);
  }
}

/// All that is known before rows are made: names, and flags that exclude each other. Flags refuse numbers
/// that are out of range themselves.
constexpr Rule<SweepOptions> kSweepRules[] = {
    &check_nesterov,
    &check_tuning,
    &check_one_scaling,
    &check_strategies,
    &check_precisions,
    [](const SweepOptions& sweep) { check_device(sweep.common.device); },
    &check_cuda_graph,
    &check_kernels,
    [](const SweepOptions& sweep) { inputs::registry().get(sweep.common.input); },
};

using PlannedRows = std::vector<RowPlan>;

void check_any_row(const SweepOptions& /*sweep*/, const PlannedRows& rows) {
  if (!rows.empty()) return;
  throw ConfigError("these flags leave nothing to measure",
                    "'independent' needs at least 2 ranks; add one to --ranks, or leave --no-controls out.");
}

void check_any_buckets(const SweepOptions& sweep, const PlannedRows& rows) {
  if (sweep.bucket_mb.size() < 2) return;
  if (std::ranges::any_of(rows, [](const RowPlan& row) { return traits_of(row).has_buckets; })) return;
  throw ConfigError(
      fmt::format("--bucket-mb has no effect on the strategy {}", fmt::join(sweep.strategies, ", ")),
      "It is an option of ddp, replicated, sharded and parameter_server.");
}

void check_any_cap(const SweepOptions& sweep, const PlannedRows& rows) {
  if (sweep.tune.empty() || std::ranges::any_of(rows, has_cap_to_tune)) return;
  throw ConfigError("--tune buckets finds nothing to tune: none of these rows sends buckets",
                    "Give 2 ranks or more, and ddp, replicated, sharded or parameter_server.");
}

void check_any_comparable(const SweepOptions& sweep, const PlannedRows& rows) {
  const auto comparable = [](const RowPlan& row) {
    return why_not_comparable(traits_of(row), training_ranks(row)).empty();
  };
  if (!sweep.verify_every || std::ranges::any_of(rows, comparable)) return;
  throw ConfigError("--verify-every finds nothing to compare: none of these rows has replicas that are equal",
                    "Give 2 ranks or more, and a strategy that keeps replicas equal, as ddp does.");
}

/// Flags that must mean something for the rows that were made of them.
constexpr Rule<SweepOptions, PlannedRows> kPlannedRules[] = {
    &check_any_row,        [](const SweepOptions& /*sweep*/, const PlannedRows& rows) { check_inputs(rows); },
    &check_any_buckets,    &check_any_cap,
    &check_any_comparable,
};

}  // namespace

void check_device(const std::string& name) {
  if (std::ranges::find(kGpuNames, name) != kGpuNames.end()) {
    throw ConfigError(fmt::format("unknown device '{}'; did you mean cuda?", name),
                      "'lockstep info devices' lists all of them.");
  }
  if (name.starts_with("cuda:")) {
    throw ConfigError(
        fmt::format("--device {}: which GPU a rank has is not told, but follows from its number", name),
        fmt::format("Use --device cuda, and CUDA_VISIBLE_DEVICES={} for that GPU alone.", name.substr(5)));
  }
  if (name != kCpu && name != kCuda)
    throw_unknown_name("device", name, std::vector<std::string>{kCpu, kCuda}, "lockstep info devices");
}

std::string default_kernels(const std::string& device) {
  return device == kCuda || !kernels::why_no_fused_kernels().empty() ? "aten" : kernels::kAuto;
}

void check_sweep(const SweepOptions& sweep) {
  require_all(kSweepRules, sweep);
}

void check_planned(const SweepOptions& sweep, const std::vector<RowPlan>& rows) {
  require_all(kPlannedRules, sweep, rows);
}

bool draws_random_numbers(const RowPlan& row) {
  const auto& file = models::info_of(row.model).file;
  return file != nullptr && file->draws_random_numbers;
}

std::optional<ConfigError> why_not_on_device(const RowPlan& row, strategies::GpuUse use) {
  use.ranks = row.ranks;
  use.scales_loss = replica::needs_loss_scale(replica::parse_precision(row.precision));
  if (!on_gpu(row)) return std::nullopt;
  if (auto why = strategies::why_not_on_gpu(row.strategy, row.parsed_options, use)) return why;
  const bool threads_share = use.share_gpus && use.are_threads && row.ranks > 1;
  if (threads_share && draws_random_numbers(row)) {
    return ConfigError(
        fmt::format("{} draws random numbers, and LibTorch has one generator of a GPU for all ranks of a "
                    "process: each would disturb the others'",
                    row.model),
        "Use --launch processes, or a GPU for every rank.");
  }
  if (row.parsed_options.shard == strategies::Shard::kParameters && row.precision == "bf16_pure") {
    return ConfigError(
        "--precision bf16_pure copies all weights at the start of a step, and --shard parameters has one "
        "unit of "
        "them at a time",
        "Use --precision bf16, which narrows each as it is used, or --shard gradients.");
  }
  if (!row.cuda_graph) return std::nullopt;
  const strategies::Traits traits = traits_of(row);
  if (!traits.not_recordable.empty()) {
    return ConfigError(
        fmt::format("{} cannot be recorded with --cuda-graph: {}", row.strategy, traits.not_recordable),
        "Use single, ddp, replicated, sharded --shard optimizer or parameter_server.");
  }
  if (threads_share) {
    return ConfigError(
        fmt::format(
            "{} cannot be recorded with --cuda-graph by several ranks of one process on one GPU: what "
            "one of them records forbids the others to wait for it",
            row.strategy),
        "Use --launch processes, or a GPU for every rank.");
  }
  if (use.backend != "nccl" && traits.communicates) {
    return ConfigError(fmt::format("{} cannot be recorded with --cuda-graph over {}, which carries a GPU's "
                                   "memory through the host",
                                   row.strategy, use.backend),
                       "Use --backend nccl, with a GPU for every rank, or --strategy single.");
  }
  return std::nullopt;
}

}  // namespace lockstep::train
