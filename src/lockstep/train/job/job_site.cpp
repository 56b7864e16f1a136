#include "lockstep/train/job/job_site.h"

#include <algorithm>

#include <fmt/format.h>
#include <net/if.h>

#include "lockstep/base/error.h"
#include "lockstep/base/rule.h"
#include "lockstep/base/tcp_socket.h"
#include "lockstep/launch/signals.h"
#include "lockstep/topology/device_map.h"
#include "lockstep/topology/system.h"
#include "lockstep/train/rows/row_rules.h"

namespace lockstep::train {
namespace {

constexpr const char* kAuto = "auto";

using Launcher = std::optional<launch::RankEnvironment>;

/// Whether `name` is a network interface of this host, or a name or number of one of its addresses.
bool is_on_this_host(const std::string& name) {
  if (::if_nametoindex(name.c_str()) != 0) return true;
  try {
    listen_at(name);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void check_interface(const JobOptions& options) {
  if (options.interface.empty() || is_on_this_host(options.interface)) return;
  throw ConfigError(fmt::format("--interface takes a network interface or an address of this host, not '{}'",
                                options.interface),
                    "'ip address' lists both.");
}

void check_interface_of_backend(const JobOptions& options, const Launcher& /*environment*/) {
  if (options.interface.empty() || (options.backend != "thread" && options.backend != "mpi")) return;
  throw ConfigError(fmt::format("--interface has no effect on --backend {}", options.backend),
                    options.backend == "mpi" ? "mpirun takes --mca btl_tcp_if_include INTERFACE."
                                             : "Threads of one process need no network.");
}

void check_threads_under_launcher(const JobOptions& options, const Launcher& environment) {
  if (!environment || (options.backend != "thread" && options.launch != "threads")) return;
  throw ConfigError(fmt::format("ranks as threads cannot be started by {}", to_string(environment->launcher)),
                    "Run lockstep without a launcher, or choose --backend gloo or mpi.");
}

void check_thread_backend(const JobOptions& options, const Launcher& /*environment*/) {
  if (options.backend != "thread" || options.launch != "processes") return;
  throw ConfigError("--backend thread connects the threads of one process, not processes",
                    "Use --launch threads, or --backend gloo or mpi.");
}

void check_mpi_threads(const JobOptions& options, const Launcher& /*environment*/) {
  if (options.backend != "mpi" || options.launch != "threads") return;
  throw ConfigError("--backend mpi has one rank per process", "Use --launch processes, or --backend thread.");
}

void check_sharing_on_cpu(const JobOptions& options, const Launcher& /*environment*/) {
  if (!options.share_device || options.on_gpus()) return;
  throw ConfigError("--share-device lets ranks share a GPU, and --device cpu has none",
                    "Use --device cuda, or leave --share-device out.");
}

void check_nccl_on_cpu(const JobOptions& options, const Launcher& /*environment*/) {
  if (options.backend != kNccl || options.on_gpus()) return;
  throw ConfigError("--backend nccl carries the memory of GPUs only, and --device cpu has none",
                    "Use --device cuda, or --backend gloo.");
}

void check_nccl_sharing(const JobOptions& options, const Launcher& /*environment*/) {
  if (options.backend != kNccl || !options.share_device) return;
  throw ConfigError("--share-device cannot be used with --backend nccl: NCCL refuses two ranks on one GPU",
                    "Use --backend gloo or mpi.");
}

/// Combinations, once device and backend are settled.
constexpr Rule<JobOptions, Launcher> kCombinationRules[] = {
    &check_threads_under_launcher, &check_thread_backend, &check_mpi_threads,
    &check_sharing_on_cpu,         &check_nccl_on_cpu,    &check_nccl_sharing,
    &check_interface_of_backend,
};

/// Whether flags ask for GPUs without naming the device. Such a user wants an error that says why GPUs cannot
/// be used, not a measurement of the CPU.
bool implies_gpus(const JobOptions& options) {
  return options.device == kAuto && (options.backend == kNccl || options.share_device);
}

/// Whether `device` could still become cuda, so that LibTorch has to look for GPUs, which takes seconds.
bool may_use_gpus(const JobOptions& options) {
  if (options.device != kAuto) return options.on_gpus();
  return implies_gpus(options) || !topology::visible_gpus().empty();
}

/// Replaces `auto` and options that were not given by values that follow from the launcher and from the GPUs
/// that LibTorch can use.
void settle_options(JobOptions& options, const Launcher& environment,
                    const replica::AcceleratorStatus& gpus) {
  if (options.device == kAuto) options.device = gpus.usable || implies_gpus(options) ? "cuda" : "cpu";
  if (options.backend.empty()) options.backend = options.on_gpus() && !options.share_device ? kNccl : "gloo";
  require_all(kCombinationRules, options, environment);
  if (environment) {
    options.launch = to_string(environment->launcher);
    if (environment->bound_by_launcher) options.bind = "launcher";
  } else if (options.launch == kAuto) {
    options.launch = options.backend == "thread" ? "threads" : "processes";
  }
}

}  // namespace

std::vector<int> JobSite::usual_ranks() const {
  int most = static_cast<int>(cores.size());
  if (on_gpus()) most = std::max(1, gpus.count);
  if (environment) most = environment->world;
  std::vector<int> powers;
  for (int ranks = 1; ranks <= most; ranks *= 2) powers.push_back(ranks);
  return powers;
}

JobSite inspect_site(JobOptions options) {
  if (options.device != kAuto) check_device(options.device);
  check_interface(options);
  JobSite site{.options = std::move(options),
               .environment = launch::detect_environment(),
               .gpus = {.usable = false,
                        .detail = "NVIDIA's driver shows none to this process",
                        .advice = "",
                        .count = 0},
               .cores = launch::usable_cores(),
               .machine = topology::inspect_host()};
  if (may_use_gpus(site.options)) {
    // Threads that CUDA's libraries start inherit the mask, so that no signal of the user ends up in them.
    const launch::BlockedSignals blocked;
    site.gpus = replica::accelerator_status();
  }
  settle_options(site.options, site.environment, site.gpus);
  return site;
}

}  // namespace lockstep::train
