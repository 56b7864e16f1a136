#include "rank_job.h"

#include <algorithm>
#include <chrono>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include <ATen/Parallel.h>

#include "lockstep/base/error.h"
#include "lockstep/base/registry.h"
#include "lockstep/comm/backend.h"
#include "lockstep/comm/hash_store.h"
#include "lockstep/launch/local_processes.h"
#include "lockstep/launch/tcp_store.h"
#include "lockstep/launch/threads.h"
#include "lockstep/replica/torch_error.h"
#include "lockstep/topology/inspect.h"
#include "lockstep/train/agreement.h"

#include "console.h"
#include "version.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::duration<double> kUntilRanksMeet{60};

void check(const RankOptions& options) {
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
  if (options.launch == "auto") options.launch = threads_backend ? "threads" : "processes";
}

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

}  // namespace

void add_rank_flags(CLI::App& command, RankOptions& options) {
  const std::string group = "Ranks";
  command
      .add_option("--backend", options.backend,
                  "gloo, mpi or thread; 'lockstep info backends' says which can be used")
      ->capture_default_str()
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

RankJob::RankJob(RankOptions options)
    : options_(std::move(options)),
      environment_(launch::detect_environment()),
      cores_(launch::usable_cores()),
      machine_(topology::inspect_host()) {
  check(options_);
  settle_launch(options_, environment_);
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
    const bool in_one_process = train::traits_of(row).one_process && row.ranks > 1;
    const std::optional<ConfigError> obstacle = in_one_process ? why_not_one_process(row) : std::nullopt;
    if (obstacle && std::ranges::find(strategies, row.strategy) != strategies.end()) throw *obstacle;
    if (obstacle) {
      left_out.push_back({std::move(row), obstacle->what()});
      continue;
    }
    if (in_one_process) row.device_cpus = binding_.cpus;
    kept.push_back(std::move(row));
  }
  rows = std::move(kept);
  return left_out;
}

std::optional<ConfigError> RankJob::why_not_one_process(const train::RowPlan& row) const {
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
  if (!status.usable) {
    throw BackendMissing(fmt::format("backend {} cannot be used: {}", options_.backend, status.detail),
                         status.advice);
  }
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
    replica::with_plain_errors([&] { body({*environment_, *store, session.progress()}); });
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
        replica::with_plain_errors([&] { body({environment, store, progress[index]}); });
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

void agree_on(const char* command, const train::Facts& plan, const RankOptions& options,
              const JobRank& rank) {
  // What explains the most comes first.
  train::Facts facts{{"version", version_text()},
                     {"command", command},
                     {"--backend", options.backend},
                     {"--threads", std::to_string(options.threads)}};
  facts.insert(facts.end(), plan.begin(), plan.end());
  train::agree_on_plan(facts, rank.environment.rank, rank.environment.world, rank.store);
}

std::unique_ptr<comm::Communicator> connect_all(const RankOptions& options, const JobRank& rank) {
  return comm::connect(options.backend, {.rank = rank.environment.rank,
                                         .size = rank.environment.world,
                                         .store = &rank.store,
                                         .timeout = comm::Duration(std::max(300.0, 10 * options.timeout_s)),
                                         .interface = options.interface});
}

}  // namespace lockstep::cli
