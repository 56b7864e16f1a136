#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/launch/binding.h"
#include "lockstep/launch/rank_environment.h"
#include "lockstep/replica/accelerator.h"
#include "lockstep/topology/system.h"

namespace lockstep::train {

/// Options of a job: the start of its ranks, their devices and their communication.
struct JobOptions {
  /// cpu, cuda, or auto: GPUs where LibTorch can use some.
  std::string device = "auto";
  /// Lets several ranks of a host use one GPU.
  bool share_device = false;
  /// Empty: nccl on GPUs of their own, otherwise gloo.
  std::string backend;
  /// processes, threads, or auto: the launcher's ranks, otherwise processes.
  std::string launch = "auto";
  /// See launch::binding_names().
  std::string bind = "core";
  /// Address or network interface for gloo; empty: found automatically.
  std::string interface;
  /// Threads per rank; 0: the cores divided by the ranks.
  int threads = 0;
  /// Seconds after which a silent rank counts as lost.
  double timeout_s = kDefaultTimeout_s;
  /// Seconds that ranks may take to find each other.
  double join_timeout_s = kDefaultJoinTimeout_s;

  bool on_gpus() const { return device == "cuda"; }
};

/// The backend whose operations go into a GPU's streams; it carries no host memory.
inline constexpr const char* kNccl = "nccl";

/// The surroundings of a job: its settled options, this process's launcher, and the resources of its host.
/// The same in the process that starts ranks and in each rank.
struct JobSite {
  /// Nothing in it is `auto` or left open.
  JobOptions options;
  /// Empty in a process that no launcher and no lockstep parent started.
  std::optional<launch::RankEnvironment> environment;
  /// Looked for only where the job could use GPUs.
  replica::AcceleratorStatus gpus;
  std::vector<launch::Core> cores;
  /// This host, inspected before ranks were bound to a part of it.
  topology::Machine machine;

  bool on_gpus() const { return options.on_gpus(); }
  /// Whether this process is a rank of a lockstep parent, which has checked everything already.
  bool supervised() const { return environment && environment->supervised; }
  /// Whether the user reads what this process prints: it starts the ranks, or is a launcher's rank 0.
  bool speaks() const { return !environment || environment->rank == 0; }
  /// Numbers of ranks to measure where the user names none: powers of two up to the launcher's ranks, this
  /// host's GPUs, or its cores.
  std::vector<int> usual_ranks() const;
};

/// Throws ConfigError for a device or an interface that does not exist, and for options that cannot go
/// together. Call before binding threads.
JobSite inspect_site(JobOptions options);

}  // namespace lockstep::train
