#include "lockstep/launch/local_processes.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/plugin_file.h"
#include "lockstep/base/secret.h"
#include "lockstep/launch/binding.h"
#include "lockstep/launch/child_process.h"
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

std::string own_program() {
  char path[4096] = {};
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) throw Error("cannot determine the path of this program: there is no /proc");
  return std::string(path, static_cast<size_t>(length));
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
  // Ranks bind themselves, and this process reports their errors.
  // As many slots on this host as there are ranks: no count of cores, and no allocation of a cluster, stands
  // in the way, on Open MPI 4 and 5 alike.
  child.arguments = {"mpirun",
                     "--bind-to",
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

/// A folder for the files of one Open MPI job, which leaves them behind where it is killed.
class OpenMpiFolder {
 public:
  /// Where Open MPI has its shared memory by itself: in memory, not on a disk.
  OpenMpiFolder()
      : path_(std::filesystem::is_directory("/dev/shm")
                  ? std::filesystem::path("/dev/shm/lockstep-mpi-XXXXXX")
                  : temporary_folder() / "lockstep-mpi-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~OpenMpiFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  OpenMpiFolder(const OpenMpiFolder&) = delete;
  OpenMpiFolder& operator=(const OpenMpiFolder&) = delete;

  /// For mpirun. Other versions of Open MPI have other names for the same.
  void add_to(std::vector<std::pair<std::string, std::string>>& variables) const {
    if (path_.empty()) return;
    for (const char* name : {kOpenMpiFolderVariable, "OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base",
                             "OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_btl_sm_backing_directory"})
      variables.emplace_back(name, path_);
  }

 private:
  std::string path_;
};

/// Environment variables with which an mpirun that starts ranks on this host only listens on the loopback
/// address. Open MPI has no setting for it, so they preload the plugin `loopback`; empty without that plugin.
std::vector<std::pair<std::string, std::string>> local_mpirun_variables() {
  for (const std::filesystem::path& folder : plugin_folders()) {
    const std::filesystem::path plugin = folder / "lockstep_loopback.so";
    // LD_PRELOAD cannot name a path with a blank or a colon.
    if (!std::filesystem::exists(plugin) || plugin.string().find_first_of(" :") != std::string::npos)
      continue;
    const char* before = std::getenv("LD_PRELOAD");
    const std::string more = before == nullptr || *before == '\0' ? "" : fmt::format(":{}", before);
    return {{"LD_PRELOAD", plugin.string() + more}, {"OMPI_MCA_oob_tcp_if_include", "lo"}};
  }
  return {};
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
  const std::string program = options.program.empty() ? own_program() : options.program;
  const JobKey job{new_job_id(), random_secret(), options.ranks};
  std::optional<OpenMpiFolder> mpi_files;
  if (options.through_mpirun) mpi_files.emplace();
  // First: the ranks need its port in their environment.
  Supervisor supervisor(options, job);

  auto environment = options.environment;
  environment.emplace_back("LOCKSTEP_LAUNCH", options.through_mpirun ? "mpirun" : "processes");
  environment.emplace_back("LOCKSTEP_JOB", job.job_id);
  environment.emplace_back("LOCKSTEP_JOB_TOKEN", job.token);
  environment.emplace_back("LOCKSTEP_JOB_PORT", std::to_string(supervisor.port()));

  if (options.through_mpirun) {
    ChildCommand child = mpirun_command(options, program);
    child.environment = environment;
    for (auto& variable : local_mpirun_variables()) child.environment.push_back(std::move(variable));
    mpi_files->add_to(child.environment);
    // One child, mpirun, whose ranks this process knows only through their server.
    supervisor.start(child, std::nullopt);
  } else {
    for (int rank = 0; rank < options.ranks; ++rank) {
      ChildCommand child{program, options.command, environment};
      child.environment.emplace_back("LOCKSTEP_RANK", std::to_string(rank));
      child.environment.emplace_back("LOCKSTEP_WORLD", std::to_string(options.ranks));
      supervisor.start(child, rank);
    }
  }
  return supervisor.run();
}

}  // namespace lockstep::launch
