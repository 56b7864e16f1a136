#include "rank_job.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include <ATen/Parallel.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/backend.h"
#include "lockstep/comm/hash_store.h"
#include "lockstep/launch/local_processes.h"
#include "lockstep/launch/signals.h"
#include "lockstep/launch/tcp_store.h"
#include "lockstep/launch/threads.h"
#include "lockstep/replica/torch_error.h"
#include "lockstep/topology/inspect.h"
#include "lockstep/topology/nvml.h"
#include "lockstep/topology/rank_gpus.h"
#include "lockstep/topology/visible_gpus.h"
#include "lockstep/train/rows/device_rules.h"

#include "job_links.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::duration<double> kUntilRanksMeet{60};

void tell(const launch::Departure& departure, const RankJob::OnDeparture& on_departure) {
  if (departure.prints) on_departure(departure.reason, departure.advice);
}

/// Leaves the process.
void fail(launch::RankSession& session, const std::exception& error,
          const RankJob::OnDeparture& on_departure) {
  const launch::Departure departure = session.fail(error);
  tell(departure, on_departure);
  launch::RankSession::leave(departure.exit_code);
}

bool in_one_process(const train::RowPlan& row) {
  return train::traits_of(row).one_process && row.ranks > 1;
}

/// The GPUs that LibTorch can use, as far as that matters.
replica::AcceleratorStatus look_for_gpus(const RankOptions& options) {
  // Opening CUDA's libraries may start threads, which must not be what a signal meets.
  const launch::BlockedSignals blocked;
  if (may_use_gpus(options)) return replica::accelerator_status();
  return {.usable = false, .detail = "NVIDIA's driver shows none to this process", .advice = "", .count = 0};
}

}  // namespace

train::RowPlan JobRank::own(train::RowPlan row) const {
  if (gpu >= 0) row.device_index = gpu;
  return row;
}

RankJob::RankJob(RankOptions options)
    : options_(std::move(options)),
      environment_(launch::detect_environment()),
      cores_(launch::usable_cores()),
      machine_(topology::inspect_host()) {
  check_rank_options(options_);
  gpus_ = look_for_gpus(options_);
  settle_rank_options(options_, environment_, gpus_);
}

int RankJob::usual_ranks() const {
  if (environment_) return environment_->world;
  return on_gpus() ? std::max(1, gpus_.count) : static_cast<int>(cores_.size());
}

void RankJob::plan(int most_ranks) {
  // A launcher that binds gives every rank cores of its own; otherwise the ranks of this host share them.
  const bool bound = environment_ && environment_->bound_by_launcher;
  const int sharing = bound ? 1 : environment_ ? std::min(most_ranks, environment_->local_world) : most_ranks;
  binding_ = launch::plan_binding(cores_, sharing, options_.threads,
                                  bound ? launch::Binding::kNone : launch::parse_binding(options_.bind));
  if (bound) options_.bind = "launcher";
  ranks_ = most_ranks;
  if (environment_ && most_ranks > environment_->world) {
    throw ConfigError(fmt::format("--ranks {} needs {} ranks, but {} started {}", most_ranks, most_ranks,
                                  to_string(environment_->launcher), environment_->world),
                      "Start more ranks, or give smaller --ranks.");
  }
}

std::vector<RowLeftOut> RankJob::place_devices(std::vector<train::RowPlan>& rows,
                                               const std::vector<std::string>& strategies) const {
  std::vector<RowLeftOut> left_out;
  std::vector<train::RowPlan> kept;
  for (train::RowPlan& row : rows) {
    const std::optional<ConfigError> obstacle = why_not(row);
    if (obstacle && std::ranges::find(strategies, row.strategy) != strategies.end()) throw *obstacle;
    if (obstacle) {
      left_out.push_back({std::move(row), obstacle->what()});
      continue;
    }
    if (in_one_process(row)) row.device_cpus = binding_.cpus;
    kept.push_back(std::move(row));
  }
  rows = std::move(kept);
  return left_out;
}

std::optional<ConfigError> RankJob::why_not(const train::RowPlan& row) const {
  const std::optional<ConfigError> on_device =
      train::why_not_on_device(row, {.backend = options_.backend,
                                     .are_threads = options_.launch == "threads",
                                     .share_gpus = options_.share_device});
  if (on_device) return on_device;
  return in_one_process(row) ? why_not_one_process(row) : std::nullopt;
}

std::optional<ConfigError> RankJob::why_not_one_process(const train::RowPlan& row) const {
  if (on_gpus() && gpus_.usable && row.ranks > gpus_.count) {
    return ConfigError(
        fmt::format("{} has all GPUs in one process, which sees {} of the {} that {} ranks need",
                    row.strategy, gpus_.count, row.ranks, row.ranks),
        "Let every rank see all GPUs of its host, use fewer --ranks, or ddp.");
  }
  if (!environment_) return std::nullopt;
  if (row.ranks > environment_->local_world) {
    return ConfigError(fmt::format("{} has all devices in one process, but its {} ranks are on several hosts "
                                   "({} on this one)",
                                   row.strategy, row.ranks, environment_->local_world),
                       "One process cannot use another host's devices: use fewer --ranks, or ddp.");
  }
  if (environment_->bound_by_launcher) {
    return ConfigError(fmt::format("{} needs the cores of {} ranks in one process, but {} bound every rank "
                                   "to its own",
                                   row.strategy, row.ranks, to_string(environment_->launcher)),
                       "Let lockstep bind: mpirun --bind-to none, srun --cpu-bind=none.");
  }
  return std::nullopt;
}

void RankJob::check_backend() const {
  // Throws for an unknown name, with the nearest.
  const comm::BackendStatus status = comm::backend_status(options_.backend);
  if (on_gpus() && !gpus_.usable) {
    throw BackendMissing("--device cuda cannot be had: " + gpus_.detail, gpus_.advice);
  }
  // Under a launcher this process may see its own GPU alone; the ranks compare theirs when they meet.
  if (on_gpus() && !environment_ && !options_.share_device)
    topology::require_enough_gpus(ranks_, gpus_.count);
  if (!status.usable) {
    throw BackendMissing(fmt::format("backend {} cannot be used: {}", options_.backend, status.detail),
                         status.advice);
  }
  require_helpers(options_);
}

void RankJob::check_memory(const std::vector<train::RowPlan>& rows) const {
  train::check_memory(rows, local_ranks(), machine_.available_memory_bytes);
  if (on_gpus()) train::check_gpu_memory(rows, gpu_rooms());
}

int RankJob::gpu_of(const launch::RankEnvironment& environment) const {
  return on_gpus() && gpus_.count > 0 ? topology::gpu_of_rank(environment.local_rank, gpus_.count) : -1;
}

std::vector<train::GpuRoom> RankJob::gpu_rooms() const {
  // A launcher's ranks each look at their own.
  std::vector<int> local_ranks;
  if (environment_) {
    local_ranks = {environment_->local_rank};
  } else {
    for (int rank = 0; rank < ranks_; ++rank) local_ranks.push_back(rank);
  }
  const std::vector<topology::VisibleGpu> visible = topology::visible_gpus();
  const topology::Nvml nvml;
  std::vector<train::GpuRoom> rooms;
  for (const int rank : local_ranks) {
    const auto number = static_cast<size_t>(topology::gpu_of_rank(rank, gpus_.count));
    // What is not known cannot be too small.
    if (number >= visible.size() || visible[number].memory_bytes == 0) continue;
    const topology::VisibleGpu& gpu = visible[number];
    int64_t available_bytes = gpu.memory_bytes;
    if (const std::optional<int> index = nvml.index_of(gpu.pci_bus_id)) {
      const topology::GpuSample now = nvml.sample(*index);
      if (now.memory_bytes && now.memory_used_bytes) {
        // Of a slice of a GPU, NVML tells what the whole has.
        available_bytes = std::min(available_bytes, *now.memory_bytes - *now.memory_used_bytes);
      }
    }
    rooms.push_back({fmt::format("GPU {} ({})", number, gpu.name), available_bytes});
  }
  return rooms;
}

int RankJob::run(const Body& body, const OnDeparture& on_departure,
                 const std::vector<std::pair<std::string, std::string>>& variables) const {
  if (environment_) return run_process(body, on_departure);
  if (options_.launch == "threads") return run_threads(body, on_departure);
  return start_processes(on_departure, variables);
}

int RankJob::start_processes(const OnDeparture& on_departure,
                             const std::vector<std::pair<std::string, std::string>>& variables) const {
  const std::unique_ptr<launch::TcpStore> store =
      launch::make_tcp_store("127.0.0.1", 0, true, kUntilRanksMeet);
  launch::LocalOptions local;
  local.ranks = ranks_;
  local.through_mpirun = options_.backend == "mpi";
  local.environment = variables;
  local.store_port = store->port();
  local.timeout = std::chrono::duration<double>(options_.timeout_s);
  const launch::Supervision outcome = launch::run_local_ranks(local);
  if (outcome.exit_code != 0) on_departure(outcome.error, outcome.advice);
  return outcome.exit_code;
}

launch::RankSession::Options RankJob::session_options(const OnDeparture& on_departure) const {
  return {
      .timeout = std::chrono::duration<double>(options_.timeout_s),
      .on_departure = [&on_departure](const launch::Departure& departure) { tell(departure, on_departure); }};
}

int RankJob::run_process(const Body& body, const OnDeparture& on_departure) const {
  launch::RankSession session(*environment_, session_options(on_departure));
  try {
    const auto local = static_cast<size_t>(environment_->local_rank);
    if (local < binding_.cpus.size()) launch::bind_this_thread(binding_.cpus[local]);
    const std::unique_ptr<launch::TcpStore> store = launch::join_tcp_store(*environment_, kUntilRanksMeet);
    session.start_watch(store.get());
    at::set_num_threads(binding_.threads_per_rank);
    replica::with_plain_errors([&] {
      body({*environment_, *store, session.progress(), gpu_of(*environment_)});
    });
    session.finish();
  } catch (const std::exception& error) {
    fail(session, error, on_departure);
  }
  return kExitDone;
}

int RankJob::run_threads(const Body& body, const OnDeparture& on_departure) const {
  launch::RankEnvironment process;
  launch::RankSession session(process, session_options(on_departure));
  comm::HashStore store;
  std::vector<launch::Progress> progress(static_cast<size_t>(ranks_));
  launch::run_threads(
      ranks_,
      [&](int rank) {
        const auto index = static_cast<size_t>(rank);
        launch::RankEnvironment environment;
        environment.rank = environment.local_rank = rank;
        environment.world = environment.local_world = ranks_;
        launch::bind_this_thread(binding_.cpus[index]);
        at::set_num_threads(binding_.threads_per_rank);
        replica::with_plain_errors([&] { body({environment, store, progress[index], gpu_of(environment)}); });
      },
      [&](int /*rank*/, const std::exception_ptr& error) {
        // The other threads may be blocked for good in a collective that this one has left.
        try {
          std::rethrow_exception(error);
        } catch (const std::exception& caught) {
          fail(session, caught, on_departure);
        }
      });
  session.finish();
  return kExitDone;
}

}  // namespace lockstep::cli
