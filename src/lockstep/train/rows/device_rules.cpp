#include "lockstep/train/rows/device_rules.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "lockstep/base/registry.h"
#include "lockstep/kernels/kernel_choice.h"
#include "lockstep/replica/precision.h"

namespace lockstep::train {
namespace {

/// Other names that people write for `cuda`. By edit distance, `gpu` would be taken for `cpu`.
bool means_a_gpu(const std::string& name) {
  constexpr std::array<const char*, 4> kOtherNames{"gpu", "GPU", "CUDA", "nvidia"};
  return std::ranges::find(kOtherNames, name) != kOtherNames.end();
}

}  // namespace

void check_device(const std::string& name) {
  if (means_a_gpu(name)) {
    throw ConfigError(fmt::format("unknown device '{}'; did you mean cuda?", name),
                      "'lockstep info devices' lists all of them.");
  }
  if (name.starts_with("cuda:")) {
    throw ConfigError(
        fmt::format("--device {}: which GPU a rank has is not told, but follows from its number", name),
        fmt::format("Use --device cuda, and CUDA_VISIBLE_DEVICES={} for that GPU alone.", name.substr(5)));
  }
  static const Registry<bool> kDevices("device", "lockstep info devices", {{"cpu", true}, {kCuda, true}});
  kDevices.get(name);
}

std::string default_kernels(const std::string& device) {
  return device == kCuda ? "aten" : kernels::default_kernels();
}

void check_device_rules(const SweepOptions& options) {
  check_device(options.common.device);
  if (options.common.device == kCuda) {
    for (const std::string& name : options.kernels) {
      if (kernels::parse_kernels(name) == kernels::KernelChoice::kAten) continue;
      throw ConfigError(fmt::format("--kernels {} are made for processors: a GPU has no oneDNN", name),
                        "Leave --kernels out, or use --device cpu.");
    }
  } else if (options.common.cuda_graph) {
    throw ConfigError("--cuda-graph records the work of a GPU, and --device cpu has none",
                      "Use --device cuda.");
  }
  if (options.common.cuda_graph && options.common.accumulate > 1) {
    throw ConfigError(
        fmt::format("--cuda-graph records a step of one batch, and --accumulate {} makes it several",
                    options.common.accumulate),
        "Leave one of the two out.");
  }
  if (options.common.cuda_graph && options.verify_every) {
    throw ConfigError(
        "--verify-every looks at the replicas between steps, which a recorded step does not stop for",
        "Leave one of the two out; what is verified without --cuda-graph holds for the same steps.");
  }
}

std::optional<ConfigError> why_not_on_device(const RowPlan& row, strategies::GpuUse use) {
  use.ranks = row.ranks;
  use.scales_loss = replica::needs_loss_scale(replica::parse_precision(row.precision));
  if (!on_gpu(row)) return std::nullopt;
  if (auto why = strategies::why_not_on_gpu(row.strategy, row.parsed_options, use)) return why;
  if (!row.cuda_graph) return std::nullopt;
  const strategies::Traits traits = traits_of(row);
  if (!traits.not_recordable.empty()) {
    return ConfigError(
        fmt::format("{} cannot be recorded with --cuda-graph: {}", row.strategy, traits.not_recordable),
        "Use single, ddp, replicated, sharded or parameter_server.");
  }
  if (use.share_gpus && use.are_threads && row.ranks > 1) {
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
