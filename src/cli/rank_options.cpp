#include "rank_options.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/registry.h"
#include "lockstep/topology/visible_gpus.h"
#include "lockstep/train/rows/device_rules.h"

namespace lockstep::cli {
namespace {

constexpr const char* kAuto = "auto";

/// Who asks for NCCL or for sharing is to hear what keeps GPUs away.
bool wants_gpus(const RankOptions& options) {
  return options.device == kAuto && (options.backend == "nccl" || options.share_device);
}

/// The kind of device that --device leaves.
std::string device_of(const RankOptions& options, const replica::AcceleratorStatus& gpus) {
  if (options.device != kAuto) return options.device;
  return gpus.usable || wants_gpus(options) ? "cuda" : "cpu";
}

std::string backend_of(const RankOptions& options) {
  if (!options.backend.empty()) return options.backend;
  return options.on_gpus() && !options.share_device ? "nccl" : "gloo";
}

void check_devices(const RankOptions& options) {
  if (!options.on_gpus()) {
    if (options.share_device) {
      throw ConfigError("--share-device lets ranks share a GPU, and --device cpu has none",
                        "Use --device cuda, or leave --share-device out.");
    }
    if (options.backend == "nccl") {
      throw ConfigError("--backend nccl carries the memory of GPUs only, and --device cpu has none",
                        "Use --device cuda, or --backend gloo.");
    }
    return;
  }
  if (options.share_device && options.backend == "nccl") {
    throw ConfigError("--share-device cannot be had with --backend nccl: NCCL refuses two ranks on one GPU",
                      "Use --backend gloo or mpi.");
  }
}

/// The way of launching that --launch, --backend and what started this process leave.
void settle_launch(RankOptions& options, const std::optional<launch::RankEnvironment>& environment) {
  const bool threads_backend = options.backend == "thread";
  if (environment) {
    if (threads_backend || options.launch == "threads") {
      throw ConfigError(
          fmt::format("ranks as threads cannot be started by {}", to_string(environment->launcher)),
          "Run lockstep without a launcher, or choose --backend gloo or mpi.");
    }
    options.launch = to_string(environment->launcher);
    return;
  }
  if (threads_backend && options.launch == "processes") {
    throw ConfigError("--backend thread connects the threads of one process, not processes",
                      "Use --launch threads, or --backend gloo or mpi.");
  }
  if (options.launch == "threads" && options.backend == "mpi") {
    throw ConfigError("--backend mpi has one rank per process",
                      "Use --launch processes, or --backend thread.");
  }
  if (options.launch == kAuto) options.launch = threads_backend ? "threads" : "processes";
}

}  // namespace

bool may_use_gpus(const RankOptions& options) {
  if (options.device != kAuto) return options.on_gpus();
  return wants_gpus(options) || !topology::visible_gpus().empty();
}

void add_rank_flags(CLI::App& command, RankOptions& options) {
  const std::string group = "Ranks";
  command
      .add_option("--device", options.device,
                  "cpu, cuda (every rank has a GPU of its own), or auto: cuda where LibTorch can use a GPU; "
                  "'lockstep info devices' says whether it can")
      ->capture_default_str()
      ->group(group);
  command
      .add_flag("--share-device", options.share_device,
                "let several ranks of a host have the same GPU, in turn; of --device cuda with gloo or mpi")
      ->group(group);
  command
      .add_option("--backend", options.backend,
                  "gloo, mpi, thread or nccl; 'lockstep info backends' says which can be used [gloo; on GPUs "
                  "that are not shared nccl]")
      ->group(group);
  command
      .add_option("--launch", options.launch,
                  "processes, threads, or auto: those that a launcher started, else processes")
      ->capture_default_str()
      ->group(group);
  command.add_option("--threads", options.threads, "threads per rank [cores / the most ranks of the sweep]")
      ->group(group);
  command.add_option("--bind", options.bind, "pin ranks: core, numa or none")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--interface", options.interface, "address or network interface for gloo [found by itself]")
      ->group(group);
  command.add_option("--timeout", options.timeout_s, "seconds after which a silent rank counts as lost")
      ->capture_default_str()
      ->group(group);
}

void check_rank_options(const RankOptions& options) {
  if (options.device != kAuto) train::check_device(options.device);
  const Registry<bool> launches("way to launch", "lockstep bench --help",
                                {{"auto", true}, {"processes", true}, {"threads", true}});
  launches.get(options.launch);
  const Registry<bool> bindings("way to bind", "lockstep bench --help",
                                {{"core", true}, {"numa", true}, {"none", true}});
  bindings.get(options.bind);
  if (options.threads < 0) {
    throw ConfigError(fmt::format("--threads must be greater than 0, not {}", options.threads));
  }
  if (!(options.timeout_s >= 1)) {
    throw ConfigError(fmt::format("--timeout must be at least 1 second, not {:g}", options.timeout_s));
  }
}

void settle_rank_options(RankOptions& options, const std::optional<launch::RankEnvironment>& environment,
                         const replica::AcceleratorStatus& gpus) {
  options.device = device_of(options, gpus);
  options.backend = backend_of(options);
  settle_launch(options, environment);
  check_devices(options);
}

}  // namespace lockstep::cli
