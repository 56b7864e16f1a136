#pragma once

#include <optional>
#include <string>

#include "lockstep/launch/rank_environment.h"
#include "lockstep/replica/accelerator.h"

namespace lockstep::train {

/// How the ranks of a job are started, what they compute on and how they communicate.
struct JobOptions {
  /// cpu, cuda, or auto: GPUs where LibTorch can use some.
  std::string device = "auto";
  /// Lets several ranks of a host use one GPU.
  bool share_device = false;
  /// Empty: nccl on GPUs of their own, otherwise gloo.
  std::string backend;
  /// processes, threads, or auto: the launcher's ranks, otherwise processes.
  std::string launch = "auto";
  /// core, numa or none.
  std::string bind = "core";
  /// Address or network interface for gloo; empty: found automatically.
  std::string interface;
  /// Threads per rank; 0: the cores divided by the ranks.
  int threads = 0;
  /// Seconds after which a silent rank counts as lost.
  double timeout_s = 30;

  bool on_gpus() const { return device == "cuda"; }
};

/// The backend whose operations go into a GPU's streams; it carries no host memory.
inline constexpr const char* kNccl = "nccl";

/// Checks every name and number by itself. Throws ConfigError.
void check_options(const JobOptions& options);

/// Whether `device` could still become cuda, so that LibTorch has to look for GPUs, which takes seconds.
bool may_use_gpus(const JobOptions& options);

/// Replaces `auto` and what was not given by what follows from the launcher and from the GPUs that LibTorch
/// can use. Throws ConfigError for a combination that cannot be.
void settle_options(JobOptions& options, const std::optional<launch::RankEnvironment>& environment,
                    const replica::AcceleratorStatus& gpus);

}  // namespace lockstep::train
