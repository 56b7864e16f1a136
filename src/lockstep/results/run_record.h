#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::results {

/// Version of the JSON schema under the key `lockstep`; docs/json.md lists what each version added.
constexpr int kSchemaVersion = 1;

/// One host, as far as it explains a number.
struct Machine {
  std::string host;
  std::string os;
  std::string processor;
  int packages = 0;
  /// Cores that this job may use (affinity mask and cgroup applied), and all that the host has.
  int cores = 0;
  int host_cores = 0;
  int numa_nodes = 0;
  /// Memory that this job may use, and all that the host has.
  int64_t memory_bytes = 0;
  int64_t host_memory_bytes = 0;
  std::vector<std::string> gpus;
};

/// Something that makes the result less trustworthy, and what to do about it.
struct Warning {
  std::string text;
  std::string advice;
};

/// What a number is relative to.
struct Baseline {
  std::string strategy;
  int ranks = 0;
  double images_per_s = 0;
};

/// Percentiles of the step time, in seconds; empty where there are too few steps for one.
struct StepPercentiles {
  std::optional<double> p50, p75, p90, p95;
};

/// One measured configuration: a row of the tables. The fields down to `threads_per_rank` are what it is (rows of
/// two records are matched by them), the rest is what was found.
struct Run {
  std::string model;
  int batch_per_rank = 0;
  int ranks = 0;
  /// Hosts that the ranks are on.
  int hosts = 1;
  std::string strategy;
  std::string backend;
  std::string precision;
  std::string memory_format;
  std::string device = "cpu";
  std::string input = "device";
  int image_size = 0;
  double bucket_mb = 0;
  int threads_per_rank = 0;

  int64_t seed = 0;
  int64_t parameters = 0;
  int warmup_steps = 0;
  /// Whether a step of the job is the longest of its ranks' (true), or every rank goes its own way.
  bool coupled = true;

  /// Over the per-step maxima (coupled), or over the own steps of the slowest rank (uncoupled).
  StepPercentiles step_s;
  /// Images per second of the whole job.
  double images_per_s = 0;
  std::optional<double> speedup;
  std::optional<double> efficiency;
  std::optional<Baseline> baseline;
  double loss_first = 0;
  double loss_last = 0;
  /// samples[step][rank]: seconds, after warm-up. For an uncoupled run the ranks' steps of the same index.
  std::vector<std::vector<double>> samples;
  /// The same for the steps before.
  std::vector<std::vector<double>> warmup_samples;
  std::vector<Warning> warnings;
};

/// Everything that one invocation of `lockstep bench` knows. Writers, readers and plots are functions of it.
struct RunRecord {
  int schema_version = kSchemaVersion;
  std::string lockstep_version;
  std::string torch_version;
  /// Empty on a CPU.
  std::string cuda_version;
  /// Library and version of each backend used: "Gloo 0.0~git20220518 (TCP)".
  std::string backend_detail;
  /// UTC, ISO 8601.
  std::string started_at;
  std::vector<std::string> command;
  std::vector<Machine> machines;
  /// How ranks came to be ("processes", "threads", "mpirun", ...), and how they were pinned ("core", ...).
  std::string launch;
  std::string binding;
  /// Processor numbers of each rank, as text ("0", "0-3"); empty where not pinned.
  std::vector<std::string> rank_cpus;
  /// Whether freed memory is kept by the process (base/allocator.h).
  std::string allocator;
  std::vector<Warning> warnings;
  std::vector<Run> runs;
  /// Why the run ended before all was measured; empty for a complete one.
  std::string incomplete;

  // What the top level of the file says, for PyTorch's own diff.py: the first of each list in a sweep.
  std::string distributed_backend;
  double bucket_size_mb = 25;
};

}  // namespace lockstep::results
