#include "comm/rank_world.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/comm/forwarding_communicator.h"
#include "lockstep/comm/hierarchical_communicator.h"
#include "lockstep/comm/store.h"
#include "lockstep/comm/transport.h"

#include "comm/device_view.h"
#include "comm/folder_store.h"
#include "comm/host_copy_engine.h"
#include "scratch_folder.h"

namespace lockstep::comm {
namespace {

constexpr const char* kFolderVariable = "LOCKSTEP_TEST_FOLDER";
constexpr const char* kRankVariable = "LOCKSTEP_TEST_RANK";

void run_guarded(const std::function<void(Communicator&)>& body, Communicator& communicator) {
  try {
    body(communicator);
  } catch (const Error& error) {
    ADD_FAILURE() << "rank " << communicator.rank() << ": " << error.what() << "; " << error.advice();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << communicator.rank() << ": " << error.what();
  }
}

std::string option(int argc, char** argv, const std::string& name) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (argv[i] == name) return argv[i + 1];
  }
  return "";
}

bool has_flag(int argc, char** argv, const std::string& name) {
  return std::find(argv + 1, argv + argc, name) != argv + argc;
}

/// A hierarchical communicator that owns the real one. Rank r is on host r % hosts.
class HierarchicalView final : public ForwardingCommunicator {
 public:
  HierarchicalView(std::unique_ptr<Communicator> real, int hosts)
      : HierarchicalView(make_hierarchical(*real, std::to_string(real->rank() % hosts)), real) {}

  void run(const Collective& collective) override { real_.run(collective); }

 private:
  HierarchicalView(std::unique_ptr<Communicator> hierarchical, std::unique_ptr<Communicator>& real)
      : ForwardingCommunicator(*hierarchical),
        below_(std::move(real)),
        hierarchical_(std::move(hierarchical)) {}

  const std::unique_ptr<Communicator> below_;
  const std::unique_ptr<Communicator> hierarchical_;
};

/// The piece size makes several pieces of most of the tests' buffers.
std::unique_ptr<Communicator> connect_staged_thread(const std::string&, const ConnectOptions& options) {
  auto engine = std::make_shared<HostCopyEngine>();
  if (options.size == 1) {
    return make_solo_communicator("thread", options.timeout, std::move(engine));
  }
  return make_communicator(make_staged_transport(connect_thread_transport(options), std::move(engine), 4096),
                           options.timeout);
}

void run_threads_with(const Connect& connect_rank, const std::string& backend, int size, Duration timeout,
                      const std::function<void(Communicator&)>& body) {
  HashStore store;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = connect_rank(
          backend, {.rank = rank, .size = size, .store = &store, .timeout = timeout, .interface = ""});
      run_guarded(body, *communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

pid_t start_rank(char** argv, const std::filesystem::path& folder, int rank) {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::setenv(kFolderVariable, folder.c_str(), 1);
  ::setenv(kRankVariable, std::to_string(rank).c_str(), 1);
  const int log = ::open((folder / ("log-" + std::to_string(rank))).c_str(), O_WRONLY | O_CREAT, 0600);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::execv("/proc/self/exe", argv);
  ::_exit(1);
}

/// Starts one copy of this program per rank, which meet through a folder, and prints what those that failed
/// said.
int start_all_ranks(char** argv, int size) {
  const test::ScratchFolder folder;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(start_rank(argv, folder.path(), rank));
  int failed = 0;
  for (int rank = 0; rank < size; ++rank) {
    int status = 0;
    ::waitpid(ranks[size_t(rank)], &status, 0);
    if (status == 0) continue;
    ++failed;
    std::cerr << "rank " << rank << " ended with status " << status << ":\n"
              << read_file(folder.path("log-" + std::to_string(rank))) << std::endl;
  }
  if (failed == 0) std::cout << read_file(folder.path("log-0")) << std::endl;
  return failed == 0 ? 0 : 1;
}

}  // namespace

Duration test_timeout() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return Duration(100);
#else
  return Duration(10);
#endif
}

RankWorld& RankWorld::get() {
  static RankWorld world;
  return world;
}

void run_threads(int size, Duration timeout, const std::function<void(Communicator&)>& body) {
  run_threads_with(connect, "thread", size, timeout, body);
}

void run_staged_threads(int size, Duration timeout, const std::function<void(Communicator&)>& body) {
  run_threads_with(connect_staged_thread, "thread", size, timeout, body);
}

void RankWorld::run(const std::function<void(Communicator&)>& body) {
  if (threads_) return run_threads_with(connect_, backend_, size_, test_timeout(), body);
  run_guarded(body, *communicator_);
}

int run_as_ranks(int argc, char** argv, const Connect& connect_rank) {
  testing::InitGoogleTest(&argc, argv);
  RankWorld& world = RankWorld::get();
  world.backend_ = option(argc, argv, "--backend");
  world.threads_ = world.backend_ == "thread" || has_flag(argc, argv, "--threads");
  world.connect_ = connect_rank ? connect_rank : Connect(connect);
  if (has_flag(argc, argv, "--staged")) {
    world.connect_ = [](const std::string& backend, const ConnectOptions& options) {
      return std::make_unique<DeviceView>(connect_staged_thread(backend, options));
    };
  }
  if (const std::string hosts = option(argc, argv, "--hosts"); !hosts.empty()) {
    world.connect_ = [hosts = std::stoi(hosts)](const std::string& backend, const ConnectOptions& options) {
      return std::make_unique<HierarchicalView>(connect(backend, options), hosts);
    };
  }
  world.size_ = std::atoi(option(argc, argv, "--ranks").c_str());
  if (world.backend_.empty() || world.size_ < 1) {
    std::cerr << "usage: " << argv[0] << " --backend NAME --ranks N [--threads] [--staged] [--hosts H]\n";
    return kExitUsage;
  }
  const bool by_mpirun = world.backend_ == "mpi";
  if (!world.threads_ && !by_mpirun && environment(kRankVariable).empty()) {
    return start_all_ranks(argv, world.size_);
  }
  if (!world.threads_) {
    world.own_rank_ = std::atoi(environment(by_mpirun ? "OMPI_COMM_WORLD_RANK" : kRankVariable).c_str());
    if (!by_mpirun) world.store_ = std::make_unique<FolderStore>(environment(kFolderVariable));
    try {
      world.communicator_ = world.connect_(world.backend_, {.rank = world.own_rank_,
                                                            .size = world.size_,
                                                            .store = world.store_.get(),
                                                            .timeout = test_timeout(),
                                                            .interface = ""});
    } catch (const Error& error) {
      std::cerr << "cannot connect: " << error.what() << "; " << error.advice() << std::endl;
      return 1;
    }
  }
  const int result = RUN_ALL_TESTS();
  world.communicator_.reset();
  return result;
}

}  // namespace lockstep::comm
