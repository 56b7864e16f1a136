#include "lockstep/train/job/job_plan.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <sys/resource.h>

#include <ATen/Parallel.h>

#include "lockstep/base/error.h"
#include "lockstep/base/rule.h"
#include "lockstep/comm/backend.h"
#include "lockstep/topology/device_map.h"
#include "lockstep/topology/nvml.h"
#include "lockstep/topology/rank_gpus.h"
#include "lockstep/train/job/job_links.h"
#include "lockstep/train/rows/row_rules.h"

namespace lockstep::train {
namespace {

bool in_one_process(const RowPlan& row) {
  return traits_of(row).one_process && row.ranks > 1;
}

void check_row_on_device(const JobSite& site, const RowPlan& row) {
  const auto why = why_not_on_device(row, {.backend = site.options.backend,
                                           .are_threads = site.options.launch == "threads",
                                           .share_gpus = site.options.share_device});
  if (why) throw *why;
}

void check_grad_clip(const JobSite& /*site*/, const RowPlan& row) {
  if (row.grad_clip == 0 || traits_of(row).updates_from_combined_gradients) return;
  throw ConfigError(
      fmt::format("--grad-clip limits combined gradients, but {} updates from each rank's own", row.strategy),
      "Use single, ddp, replicated, sharded, horovod, data_parallel or a synchronous parameter_server.");
}

void check_gpus_of_one_process(const JobSite& site, const RowPlan& row) {
  if (!in_one_process(row) || !site.on_gpus() || !site.gpus.usable || row.ranks <= site.gpus.count) return;
  throw ConfigError(
      fmt::format("{} uses all GPUs from one process, which sees {} of the {} that {} ranks need",
                  row.strategy, site.gpus.count, row.ranks, row.ranks),
      "Let every rank see all GPUs of its host, use fewer --ranks, or ddp.");
}

void check_hosts_of_one_process(const JobSite& site, const RowPlan& row) {
  if (!in_one_process(row) || !site.environment || row.ranks <= site.environment->local_world) return;
  throw ConfigError(fmt::format("{} uses all devices from one process, but its {} ranks are on several hosts "
                                "({} on this one)",
                                row.strategy, row.ranks, site.environment->local_world),
                    "One process cannot use another host's devices: use fewer --ranks, or ddp.");
}

void check_cores_of_one_process(const JobSite& site, const RowPlan& row) {
  if (!in_one_process(row) || !site.environment || !site.environment->bound_by_launcher) return;
  throw ConfigError(fmt::format("{} needs the cores of {} ranks in one process, but {} bound every rank "
                                "to its own",
                                row.strategy, row.ranks, to_string(site.environment->launcher)),
                    "Let lockstep bind: mpirun --bind-to none, srun --cpu-bind=none.");
}

/// Reasons why a single row cannot run at this site.
constexpr Rule<JobSite, RowPlan> kRowRules[] = {
    &check_row_on_device,        &check_grad_clip, &check_gpus_of_one_process, &check_hosts_of_one_process,
    &check_cores_of_one_process,
};

void check_ranks_started(const JobPlan& job) {
  const auto& environment = job.site.environment;
  if (!environment || job.ranks <= environment->world) return;
  throw ConfigError(fmt::format("--ranks {} needs {} ranks, but {} started {}", job.ranks, job.ranks,
                                to_string(environment->launcher), environment->world),
                    "Start more ranks, or give smaller --ranks.");
}

/// Keeps the rows that can run.
void place_rows(JobPlan& job, std::vector<RowPlan> rows, const std::vector<std::string>& wanted) {
  for (RowPlan& row : rows) {
    try {
      require_all(kRowRules, job.site, row);
    } catch (const ConfigError& obstacle) {
      const auto asked = [&](const std::string& name) {
        return strategies::resolve(name, {}).strategy == row.strategy;
      };
      if (std::ranges::any_of(wanted, asked)) throw;
      job.left_out.push_back({std::move(row), obstacle.what()});
      continue;
    }
    if (in_one_process(row)) row.device_cpus = job.binding.cpus;
    job.rows.push_back(std::move(row));
  }
}

void check_gpus_usable(const JobPlan& job) {
  if (!job.site.on_gpus() || job.site.gpus.usable) return;
  throw BackendMissing("--device cuda cannot be used: " + job.site.gpus.detail, job.site.gpus.advice);
}

void check_gpu_for_each_rank(const JobPlan& job) {
  // A launcher may show every rank its own GPU alone; those ranks compare theirs when they meet.
  if (!job.site.on_gpus() || job.site.environment || job.site.options.share_device) return;
  topology::require_enough_gpus(job.ranks, job.site.gpus.count);
}

/// Open files of a process that do not depend on the number of ranks.
constexpr int64_t kWithoutOthers = 24;

/// Open files that a rank needs at most. Every communicator over gloo connects each rank with each other.
int64_t open_files_of_rank(const JobPlan& job) {
  if (job.site.options.backend == "mpi" || job.site.options.launch == "threads") return kWithoutOthers;
  std::set<int> sizes{job.ranks};
  int lanes = 1;
  for (const RowPlan& row : job.rows) {
    sizes.insert(row.ranks);
    // With one of the first ranks of hosts beside each lane.
    const int in_flight = row.parsed_options.in_flight;
    const int of_norm = row.parsed_options.sync_batch_norm ? 1 : 0;
    lanes = std::max(lanes, of_norm + (row.parsed_options.hierarchical ? 2 * in_flight - 1 : in_flight - 1));
  }
  return kWithoutOthers + (job.ranks - 1) * (std::ssize(sizes) + lanes);
}

void check_open_files(const JobPlan& job) {
  // The job's server has a connection to each rank, and takes as many of strangers.
  const int64_t of_server = kWithoutOthers + 2 * int64_t{job.ranks};
  const int64_t needed = std::max(open_files_of_rank(job), of_server);
  const int64_t allowed = raise_open_files_limit();
  if (needed <= allowed) return;
  throw ConfigError(fmt::format("{} ranks need up to {} open files in one process, and this system allows {}",
                                job.ranks, needed, allowed),
                    fmt::format("Raise the limit (ulimit -Hn {}), or use fewer --ranks.", needed));
}

void check_backend_usable(const JobPlan& job) {
  const comm::BackendStatus status = comm::backend_status(job.site.options.backend);
  if (status.usable) return;
  throw BackendMissing(fmt::format("backend {} cannot be used: {}", status.name, status.detail),
                       status.advice);
}

void check_recording(const JobPlan& job) {
  if (std::ranges::any_of(job.rows, &RowPlan::cuda_graph)) replica::require_recording();
}

/// Libraries, plugins and devices that have to be there.
constexpr Rule<JobPlan> kBackendRules[] = {
    // Throws for an unknown name, with the nearest.
    [](const JobPlan& job) { comm::backend_status(job.site.options.backend); },
    &check_gpus_usable,
    &check_gpu_for_each_rank,
    &check_backend_usable,
    &check_open_files,
    [](const JobPlan& job) { require_helpers(job.site.options); },
    &check_recording,
};

/// The GPUs of this host's ranks, by local rank, as far as this process sees them.
std::vector<GpuRoom> gpu_rooms(const JobPlan& job) {
  std::vector<int> local_ranks;
  if (job.site.environment) {
    // Each of a launcher's ranks checks its own GPU.
    local_ranks = {job.site.environment->local_rank};
  } else {
    for (int rank = 0; rank < job.ranks; ++rank) local_ranks.push_back(rank);
  }
  const std::vector<topology::VisibleGpu> visible = topology::visible_gpus();
  const topology::Nvml nvml;
  std::vector<GpuRoom> rooms;
  for (const int rank : local_ranks) {
    const auto number = static_cast<size_t>(topology::gpu_of_rank(rank, job.site.gpus.count));
    // Capacity unknown: nothing to check.
    if (number >= visible.size() || visible[number].memory_bytes == 0) continue;
    const topology::VisibleGpu& gpu = visible[number];
    int64_t available_bytes = gpu.memory_bytes;
    if (const std::optional<int> index = nvml.index_of(gpu.pci_bus_id)) {
      const topology::GpuSample now = nvml.sample(*index);
      if (now.memory_bytes && now.memory_used_bytes) {
        // For a MIG slice, NVML reports the memory of the whole GPU.
        available_bytes = std::min(available_bytes, *now.memory_bytes - *now.memory_used_bytes);
      }
    }
    rooms.push_back({fmt::format("GPU {} ({})", number, gpu.name), available_bytes});
  }
  return rooms;
}

}  // namespace

int64_t raise_open_files_limit() {
  // More than a job can use. Some programs that are started close every number up to the limit, which may be
  // billions.
  constexpr rlim_t kMostFiles = 1 << 20;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return kMostFiles;
  const rlim_t wanted = std::min(files.rlim_max, kMostFiles);
  if (files.rlim_cur < wanted) {
    const rlimit raised{wanted, files.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) files = raised;
  }
  return static_cast<int64_t>(std::min(files.rlim_cur, kMostFiles));
}

launch::BindingPlan bind_ranks(const JobSite& site, int ranks, int threads) {
  // A launcher that binds gives every rank cores of its own; otherwise the ranks of this host share them.
  if (site.environment && site.environment->bound_by_launcher) {
    return launch::plan_binding(site.cores, 1, threads, launch::Binding::kNone);
  }
  const int sharing = site.environment ? std::min(ranks, site.environment->local_world) : ranks;
  return launch::plan_binding(site.cores, sharing, threads, launch::binding_of(site.options.bind));
}

JobPlan plan_job(JobSite site, std::vector<RowPlan> rows, const std::vector<std::string>& strategies) {
  JobPlan job = plan_job(std::move(site), most_ranks(rows));
  place_rows(job, std::move(rows), strategies);
  return job;
}

JobPlan plan_job(JobSite site, int ranks) {
  JobPlan job{.site = std::move(site), .rows = {}, .left_out = {}, .ranks = ranks, .binding = {}};
  check_ranks_started(job);
  job.binding = bind_ranks(job.site, job.ranks, job.site.options.threads);
  return job;
}

void check_backend(const JobPlan& job) {
  require_all(kBackendRules, job);
}

std::vector<std::string> check_memory(const JobPlan& job) {
  at::set_num_threads(job.binding.threads_per_rank);
  std::vector<std::string> shortages =
      check_memory(job.rows, job.local_ranks(), job.site.machine.available_memory_bytes);
  if (job.site.on_gpus()) check_gpu_memory(job.rows, gpu_rooms(job));
  return shortages;
}

}  // namespace lockstep::train
