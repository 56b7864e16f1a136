#include "lockstep/train/device_rules.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "lockstep/base/registry.h"
#include "lockstep/kernels/kernel_choice.h"

namespace lockstep::train {
namespace {

constexpr const char* kCuda = "cuda";

/// What people write for `cuda`; by its letters `gpu` is nearer to `cpu`.
bool means_a_gpu(const std::string& name) {
  constexpr std::array<const char*, 4> kOtherNames{"gpu", "GPU", "CUDA", "nvidia"};
  return std::ranges::find(kOtherNames, name) != kOtherNames.end();
}

/// Those whose steps are the same work for the host every time, so that they can be recorded.
bool steps_are_alike(const std::string& strategy) {
  constexpr std::array<const char*, 4> kAlike{"single", "independent", "replicated", "ddp"};
  return std::ranges::find(kAlike, strategy) != kAlike.end();
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
  check_device(options.device);
  if (options.device == kCuda) {
    for (const std::string& name : options.kernels) {
      if (kernels::parse_kernels(name) == kernels::KernelChoice::kAten) continue;
      throw ConfigError(fmt::format("--kernels {} are made for processors: a GPU has no oneDNN", name),
                        "Leave --kernels out, or use --device cpu.");
    }
  } else if (options.cuda_graph) {
    throw ConfigError("--cuda-graph records the work of a GPU, and --device cpu has none",
                      "Use --device cuda.");
  }
  if (options.cuda_graph && options.accumulate > 1) {
    throw ConfigError(
        fmt::format("--cuda-graph records a step of one batch, and --accumulate {} makes it several",
                    options.accumulate),
        "Leave one of the two out.");
  }
  if (options.cuda_graph && options.verify_every) {
    throw ConfigError(
        "--verify-every looks at the replicas between steps, which a recorded step does not stop for",
        "Leave one of the two out; what is verified without --cuda-graph holds for the same steps.");
  }
}

std::optional<ConfigError> why_not_on_device(const RowPlan& row, const GpuSetting& setting) {
  if (!on_gpu(row)) return std::nullopt;
  const bool share = setting.share_gpus && row.ranks > 1;
  // LibTorch has one thread per process and GPU for backward passes, and both of these wait in there for
  // others that need it.
  if (share && traits_of(row).one_process) {
    return ConfigError(fmt::format("{} needs a GPU for every rank, in one process", row.strategy),
                       "Use fewer --ranks, or another strategy.");
  }
  if (share && setting.are_threads && row.strategy == "ddp") {
    return ConfigError(
        "ddp cannot have several ranks of one process on one GPU: LibTorch runs their backward passes in one "
        "thread, where the first that waits for the others keeps them from going on",
        "Use --launch processes.");
  }
  if (!row.cuda_graph) return std::nullopt;
  if (!steps_are_alike(row.strategy)) {
    return ConfigError(fmt::format("{} cannot be recorded with --cuda-graph: what the host does in a step is "
                                   "not the same in every one",
                                   row.strategy),
                       "Use single, ddp or replicated.");
  }
  if (setting.backend != "nccl" && traits_of(row).communicates) {
    return ConfigError(fmt::format("{} cannot be recorded with --cuda-graph over {}, which carries a GPU's "
                                   "memory through the host",
                                   row.strategy, setting.backend),
                       "Use --backend nccl, with a GPU for every rank, or --strategy single.");
  }
  return std::nullopt;
}

}  // namespace lockstep::train
