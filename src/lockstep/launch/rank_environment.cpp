#include "lockstep/launch/rank_environment.h"

#include <cctype>
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/tcp_socket.h"

namespace lockstep::launch {
namespace {

/// The limit of real step numbers in Slurm; those from here on stand for batch scripts and shells.
constexpr int64_t kLastSlurmStep = 0xfffffff0;

class Reader {
 public:
  explicit Reader(const Lookup& lookup) : lookup_(lookup) {}

  bool has(const char* name) const { return lookup_(name) != nullptr; }

  std::string text(const char* name) const {
    const char* value = lookup_(name);
    return value == nullptr ? "" : value;
  }

  /// Throws ConfigError that names the variable unless it is a number of at least `lowest`.
  int64_t number(const char* name, int64_t lowest = 0) const {
    const std::string value = text(name);
    if (!has(name)) {
      throw ConfigError(fmt::format("{} is not set", name), fmt::format("Set {} on every rank.", name));
    }
    int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < lowest ||
        number > UINT32_MAX) {
      throw ConfigError(fmt::format("{}='{}' is not a number from {} on", name, value, lowest),
                        fmt::format("Set {} right, or unset it.", name));
    }
    return number;
  }

  int count(const char* name, int lowest = 0) const {
    const int64_t value = number(name, lowest);
    if (value > INT32_MAX) throw ConfigError(fmt::format("{}={} is too large", name, value));
    return static_cast<int>(value);
  }

  int port(const char* name) const {
    const int64_t value = number(name, 1);
    if (value > 65535)
      throw ConfigError(fmt::format("{}={} is not a port: they end at 65535", name, value),
                        fmt::format("Set {} right, or unset it.", name));
    return static_cast<int>(value);
  }

 private:
  const Lookup& lookup_;
};

void require_below(const char* name, int value, const char* limit_name, int limit) {
  if (value < limit) return;
  throw ConfigError(fmt::format("{}={} contradicts {}={}", name, value, limit_name, limit),
                    fmt::format("Ranks count from 0, so {} must be below {}.", name, limit_name));
}

void require_at_most(const char* name, int value, const char* limit_name, int limit) {
  if (value <= limit) return;
  throw ConfigError(fmt::format("{}={} contradicts {}={}", name, value, limit_name, limit),
                    fmt::format("{} cannot be larger than {}.", name, limit_name));
}

/// Reads a rank's place among others, and their number.
void read_place(const Reader& read, const char* rank_name, int& rank, const char* world_name, int& world) {
  rank = read.count(rank_name);
  world = read.count(world_name, 1);
  require_below(rank_name, rank, world_name, world);
}

/// Replaces characters that may not be part of a file's name.
std::string clean(std::string text) {
  for (char& c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '.') c = '_';
  }
  return text;
}

/// The addresses in Open MPI's "12.0;tcp://10.0.0.1,10.1.0.1:4000", or "12.0;tcp6://[fd00::1,fd01::1]:4000".
std::string addresses_in(const std::string& uri) {
  const size_t begin = uri.find("://");
  if (begin == std::string::npos) return "";
  const bool in_brackets = uri.compare(begin + 3, 1, "[") == 0;
  const size_t first = begin + (in_brackets ? 4 : 3);
  return uri.substr(first, uri.find_first_of(in_brackets ? "]" : ":;", first) - first);
}

/// Reads MASTER_ADDR and MASTER_PORT if the user gave them.
void read_master(const Reader& read, RankEnvironment& found) {
  found.master_addr = read.text("MASTER_ADDR");
  if (read.has("MASTER_PORT")) found.master_port = read.port("MASTER_PORT");
}

RankEnvironment from_torchrun(const Reader& read) {
  RankEnvironment found;
  found.launcher = Launcher::kTorchrun;
  read_place(read, "RANK", found.rank, "WORLD_SIZE", found.world);
  read_master(read, found);
  if (found.world > 1) {
    // Asked for its error only: read_master has read it if it is there.
    read.number("MASTER_PORT", 1);
    if (found.master_addr.empty()) {
      throw ConfigError("MASTER_ADDR is not set", "Set MASTER_ADDR to the host of rank 0, on every rank.");
    }
  }
  // Set by torchrun; by hand they may be missing where they follow from the rest.
  const bool local_known = read.has("LOCAL_RANK") || read.has("LOCAL_WORLD_SIZE");
  if (local_known) {
    read_place(read, "LOCAL_RANK", found.local_rank, "LOCAL_WORLD_SIZE", found.local_world);
    require_at_most("LOCAL_WORLD_SIZE", found.local_world, "WORLD_SIZE", found.world);
  } else if (found.world == 1 || is_loopback(found.master_addr)) {
    found.local_rank = found.rank;
    found.local_world = found.world;
  } else {
    throw ConfigError("LOCAL_RANK and LOCAL_WORLD_SIZE are not set",
                      "Set them to this rank's number among those of its host, and to how many these are.");
  }
  const bool by_torchrun = read.has("TORCHELASTIC_RUN_ID");
  found.has_agent_store = read.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  // Each agent counts its own restarts, not those that another one asked for.
  const std::string start = found.on_one_host() ? read.text("TORCHELASTIC_RESTART_COUNT") : "";
  // Jobs that are given no run id all have the same: their ports differ.
  found.job_id = by_torchrun ? clean(fmt::format("torchrun-{}-{}-{}", read.text("TORCHELASTIC_RUN_ID"),
                                                 found.master_port, start))
                             : fmt::format("env-{}", found.master_port);
  if (!by_torchrun && read.has("OMPI_COMM_WORLD_RANK")) {
    const int other = read.count("OMPI_COMM_WORLD_RANK");
    if (other != found.rank) {
      throw ConfigError(fmt::format("RANK={} contradicts OMPI_COMM_WORLD_RANK={}", found.rank, other),
                        "Unset RANK and WORLD_SIZE to use the ranks that mpirun started.");
    }
  }
  return found;
}

RankEnvironment from_open_mpi(const Reader& read) {
  RankEnvironment found;
  read_place(read, "OMPI_COMM_WORLD_RANK", found.rank, "OMPI_COMM_WORLD_SIZE", found.world);
  read_place(read, "OMPI_COMM_WORLD_LOCAL_RANK", found.local_rank, "OMPI_COMM_WORLD_LOCAL_SIZE",
             found.local_world);
  require_at_most("OMPI_COMM_WORLD_LOCAL_SIZE", found.local_world, "OMPI_COMM_WORLD_SIZE", found.world);
  found.launcher = Launcher::kMpirun;
  found.bound_by_launcher =
      read.text("OMPI_MCA_orte_bound_at_launch") == "1" || read.has("PRTE_MCA_prte_bound_at_launch");
  read_master(read, found);
  // Namespaces are numbered and come back sooner or later; the address of mpirun distinguishes two jobs of
  // one number apart.
  const std::string server = read.text("OMPI_MCA_orte_hnp_uri");
  // 128 random bits that mpirun draws for each job and hands to its ranks.
  found.token = read.text("OMPI_MCA_orte_precondition_transports");
  found.job_id =
      clean(fmt::format("mpirun-{}-{:016x}", read.text("PMIX_NAMESPACE"), std::hash<std::string>()(server)));
  if (!found.on_one_host() && found.master_addr.empty()) found.launcher_addr = addresses_in(server);
  return found;
}

/// The variables that run_local_ranks() sets; through mpirun they are mpirun's.
RankEnvironment from_lockstep(const Reader& read) {
  RankEnvironment found;
  const std::string launch = read.text("LOCKSTEP_LAUNCH");
  if (launch == "mpirun") {
    found = from_open_mpi(read);
    found.supervised = true;
    return found;
  }
  if (launch != "processes") {
    throw ConfigError(fmt::format("LOCKSTEP_LAUNCH='{}' is neither processes nor mpirun", launch),
                      "lockstep sets it for the ranks that it starts: unset it.");
  }
  read_place(read, "LOCKSTEP_RANK", found.rank, "LOCKSTEP_WORLD", found.world);
  found.local_rank = found.rank;
  found.local_world = found.world;
  // The parent is on this host, and so is the job's server.
  found.supervised = true;
  found.job_id = read.text("LOCKSTEP_JOB");
  found.token = read.text("LOCKSTEP_JOB_TOKEN");
  found.master_addr = kLoopback;
  found.master_port = read.port("LOCKSTEP_JOB_PORT");
  return found;
}

RankEnvironment from_slurm(const Reader& read) {
  RankEnvironment found;
  found.launcher = Launcher::kSrun;
  read_place(read, "SLURM_PROCID", found.rank, "SLURM_STEP_NUM_TASKS", found.world);
  found.local_rank = read.count("SLURM_LOCALID");
  const std::vector<int> tasks =
      expand_slurm_tasks("SLURM_STEP_TASKS_PER_NODE", read.text("SLURM_STEP_TASKS_PER_NODE"));
  // May be missing in a step of one node.
  const int node = read.has("SLURM_NODEID") ? read.count("SLURM_NODEID") : 0;
  require_below("SLURM_NODEID", node, "nodes in SLURM_STEP_TASKS_PER_NODE", static_cast<int>(tasks.size()));
  found.local_world = tasks[static_cast<size_t>(node)];
  require_below("SLURM_LOCALID", found.local_rank, "tasks of this node in SLURM_STEP_TASKS_PER_NODE",
                found.local_world);
  const int64_t job = read.number("SLURM_JOB_ID");
  const int64_t step = read.number("SLURM_STEP_ID");
  found.job_id = fmt::format("srun-{}-{}", job, step);
  read_master(read, found);
  if (!found.on_one_host()) {
    if (found.master_addr.empty()) {
      found.master_addr = first_slurm_host("SLURM_STEP_NODELIST", read.text("SLURM_STEP_NODELIST"));
      found.launcher_addr = read.text("SLURM_LAUNCH_NODE_IPADDR");
    }
    // Below the ports that systems assign by themselves.
    if (found.master_port == 0) found.master_port = static_cast<int>(12000 + (job * 64 + step) % 20000);
  }
  const std::string bound = read.text("SLURM_CPU_BIND_TYPE");
  found.bound_by_launcher =
      bound.starts_with("mask_cpu") || bound.starts_with("map_cpu") || bound.starts_with("rank");
  return found;
}

bool is_step_of_several_tasks(const Reader& read) {
  if (!read.has("SLURM_PROCID") || !read.has("SLURM_STEP_ID") || !read.has("SLURM_STEP_NUM_TASKS"))
    return false;
  return read.number("SLURM_STEP_ID") < kLastSlurmStep && read.number("SLURM_STEP_NUM_TASKS", 1) > 1;
}

RankEnvironment with_token_of_user(RankEnvironment found, const Lookup& lookup) {
  std::string given = secret_of_user(lookup);
  if (!given.empty()) found.token = std::move(given);
  return found;
}

}  // namespace

const char* to_string(Launcher launcher) {
  static constexpr const char* kLaunchers[] = {"processes", "mpirun", "srun", "torchrun"};
  return kLaunchers[static_cast<size_t>(launcher)];
}

std::optional<RankEnvironment> detect_environment(const Lookup& lookup) {
  const Reader read(lookup);
  // The most specific first: torchrun may run inside an mpirun or a Slurm step, whose variables are set as
  // well.
  if (read.has("LOCKSTEP_LAUNCH")) return from_lockstep(read);
  if (read.has("RANK") || read.has("WORLD_SIZE")) return with_token_of_user(from_torchrun(read), lookup);
  if (read.has("OMPI_COMM_WORLD_RANK")) return with_token_of_user(from_open_mpi(read), lookup);
  if (is_step_of_several_tasks(read)) return with_token_of_user(from_slurm(read), lookup);
  // The latter two are those of hydra, which MPICH and Intel MPI have.
  const bool by_pmi = read.has("PMI_RANK") && read.number("PMI_SIZE", 1) > 1;
  if ((read.has("PMIX_RANK") || by_pmi) && !read.has("SLURM_STEP_ID")) {
    throw ConfigError(
        by_pmi ? "PMI_RANK and PMI_SIZE are set, but lockstep does not take its ranks from them"
               : "PMIX_RANK is set, but nothing tells how many ranks there are",
        "Set RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or start "
        "with Open MPI's mpirun, srun or torchrun.");
  }
  return std::nullopt;
}

std::optional<RankEnvironment> detect_environment() {
  return detect_environment([](const char* name) { return std::getenv(name); });
}

}  // namespace lockstep::launch
