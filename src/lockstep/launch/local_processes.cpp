#include "lockstep/launch/local_processes.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include <fmt/format.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/plugin_file.h"
#include "lockstep/base/secret.h"
#include "lockstep/launch/binding.h"
#include "lockstep/launch/child_process.h"
#include "lockstep/launch/guarded_folder.h"
#include "lockstep/launch/supervisor.h"

namespace lockstep::launch {
namespace {

/// The arguments that this process was started with.
std::vector<std::string> own_command() {
  std::ifstream stream("/proc/self/cmdline", std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  std::vector<std::string> command;
  // Arguments end with a zero byte each, and may be empty.
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\0', begin), text.size());
    command.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return command;
}

/// Unique also among hosts and after a restart of the process numbers.
std::string new_job_id() {
  std::random_device random;
  return fmt::format("local-{}-{:08x}{:08x}", ::getpid(), random(), random());
}

ChildCommand mpirun_command(const LocalOptions& options, const std::string& program) {
  std::string mpirun = find_program("mpirun");
  if (mpirun.empty()) mpirun = find_program("mpirun.openmpi");
  if (mpirun.empty()) {
    throw BackendMissing(
        "backend mpi needs mpirun, and it is not in PATH",
        "Install Open MPI (Debian, Ubuntu: apt-get install openmpi-bin), or use --backend gloo.");
  }
  ChildCommand child;
  child.program = mpirun;
  child.in_terminal = true;
  // Ranks bind themselves. As many slots on this host as there are ranks: no count of cores, and no
  // allocation of a cluster, stands in the way, on Open MPI 4 and 5 alike.
  child.arguments = {"mpirun",
                     "--bind-to",
                     "none",
                     "--stdin",
                     "none",
                     "--host",
                     fmt::format("localhost:{}", options.ranks),
                     "-np",
                     std::to_string(options.ranks)};
  if (::geteuid() == 0) child.arguments.emplace_back("--allow-run-as-root");
  child.arguments.push_back(program);
  child.arguments.insert(child.arguments.end(), options.command.begin() + 1, options.command.end());
  return child;
}

/// Time that Open MPI's files stay after a kill of this process: rank 0 outlives it by two seconds.
constexpr std::chrono::milliseconds kOpenMpiGrace{2500};

/// A folder for the files of one Open MPI job, which leaves them behind where it is killed. Where Open MPI
/// has its shared memory by itself: in memory, not on a disk. Empty if it cannot be made.
std::string make_open_mpi_folder() {
  const bool in_memory = std::filesystem::is_directory("/dev/shm");
  std::string path = ((in_memory ? "/dev/shm" : temporary_folder()) / "lockstep-mpi-XXXXXX").string();
  return ::mkdtemp(path.data()) != nullptr ? path : "";
}

/// Other versions of Open MPI have other names for the same.
constexpr const char* kOpenMpiFolders[] = {"OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base",
                                           "OMPI_MCA_btl_vader_backing_directory",
                                           "OMPI_MCA_btl_sm_backing_directory"};

/// Runs mpirun as a shell would, and waits for it: its ranks are on their own, as those of a user's mpirun.
Supervision run_through_mpirun(const LocalOptions& options, const std::string& program) {
  const GuardedFolder files(make_open_mpi_folder(), kOpenMpiGrace);
  ChildCommand child = mpirun_command(options, program);
  child.environment = options.environment;
  child.environment.emplace_back("LOCKSTEP_LAUNCH", "mpirun");
  if (!files.path().empty()) {
    for (const char* name : kOpenMpiFolders) child.environment.emplace_back(name, files.path());
  }
  // POSIX shared memory, which Open MPI makes only to see whether it could, stays in /dev/shm where a rank is
  // killed at that moment.
  child.environment.emplace_back("OMPI_MCA_shmem", "mmap");
  const ChildEnd end = run_child(child);
  Supervision result;
  result.exit_code = end.interrupted_by ? 128 + *end.interrupted_by : end.exit_code;
  if (end.killed_by) {
    result.exit_code = kExitFailed;
    result.what = fmt::format("mpirun was killed by {}", signal_name(*end.killed_by));
  } else if (const int signal = end.exit_code - 128;
             signal > 0 && std::ranges::find(kEndingSignals, signal) == kEndingSignals.end()) {
    // The other ranks name the one that a signal ended; a rank alone has none.
    result.exit_code = kExitFailed;
    if (options.ranks == 1) result.what = fmt::format("rank 0 was killed by {}", signal_name(signal));
  }
  return result;
}

}  // namespace

void keep_listeners_local() {
  constexpr std::pair<const char*, const char*> kVariables[] = {
      // Excluded by name, because the component for shared memory has another name in every version.
      {"OMPI_MCA_btl", "^tcp,openib,ofi,uct,usnic"},
      {"OMPI_MCA_pml", "ob1"},
      {"UCX_TLS", "self,sm"},
      {"NCCL_SOCKET_IFNAME", "lo"},
  };
  for (const auto& [name, value] : kVariables) ::setenv(name, value, 0);
}

Supervision run_local_ranks(const LocalOptions& given) {
  LocalOptions options = given;
  if (options.command.empty()) options.command = own_command();
  const std::string program = options.program.empty() ? program_path().string() : options.program;
  if (options.through_mpirun) return run_through_mpirun(options, program);

  const JobKey job{new_job_id(), random_secret(), options.ranks};
  // First: the ranks need its port in their environment.
  Supervisor supervisor(options, job);
  auto environment = options.environment;
  environment.emplace_back("LOCKSTEP_LAUNCH", "processes");
  environment.emplace_back("LOCKSTEP_JOB", job.job_id);
  environment.emplace_back("LOCKSTEP_JOB_TOKEN", job.token);
  environment.emplace_back("LOCKSTEP_JOB_PORT", std::to_string(supervisor.port()));
  for (int rank = 0; rank < options.ranks; ++rank) {
    ChildCommand child{program, options.command, environment};
    child.environment.emplace_back("LOCKSTEP_RANK", std::to_string(rank));
    child.environment.emplace_back("LOCKSTEP_WORLD", std::to_string(options.ranks));
    supervisor.start(child, rank);
  }
  return supervisor.run();
}

}  // namespace lockstep::launch
