#include "launch/program_run.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/launch/child_process.h"

namespace lockstep::launch::testing {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream stream(path);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

bool alive(pid_t pid) {
  const std::string stat = contents("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat[name_end + 2] != 'Z' && stat[name_end + 2] != 'X';
}

/// False after `seconds`.
template <typename Condition>
bool wait_until(double seconds, const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

}  // namespace

ProgramRun::~ProgramRun() {
  for (const pid_t pid : running_) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (!entry.path().filename().string().starts_with("pid.")) continue;
    const pid_t pid = std::atoi(contents(entry.path()).c_str());
    // The number may belong to another program by now.
    if (contents("/proc/" + std::to_string(pid) + "/cmdline").find(folder_.string()) != std::string::npos) {
      ::kill(pid, SIGKILL);
    }
  }
}

pid_t ProgramRun::start(const std::vector<std::string>& command, const Environment& environment) {
  // Should this test program be killed, what it has started dies with it.
  ChildCommand child{"/bin/sh", {"sh", "-c", R"(exec "$@" >>"$LAUNCH_TEST_OUTPUT" 2>&1)", "sh"}, environment};
  child.arguments.insert(child.arguments.end(), command.begin(), command.end());
  child.arguments.insert(child.arguments.end(), {"--folder", folder_.string()});
  child.environment.emplace_back("LAUNCH_TEST_OUTPUT", (folder_ / "output").string());
  // Ranks leave without taking down their threads, which a thread sanitizer would tell.
  child.environment.emplace_back("TSAN_OPTIONS", "report_thread_leaks=0:atexit_sleep_ms=0");
  const pid_t pid = start_child(child);
  running_.push_back(pid);
  return pid;
}

void ProgramRun::wait_for_ranks(int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    const fs::path file = folder_ / ("pid." + std::to_string(rank));
    ASSERT_TRUE(wait_until(15, [&] { return fs::exists(file); })) << "rank " << rank << " is missing\n"
                                                                  << output();
  }
}

pid_t ProgramRun::pid_of_rank(int rank) const {
  const pid_t pid = std::atoi(contents(folder_ / ("pid." + std::to_string(rank))).c_str());
  // kill() takes 0 for the whole group, this program included.
  if (pid <= 0) throw std::runtime_error("rank " + std::to_string(rank) + " has not said its number");
  return pid;
}

int ProgramRun::wait(pid_t pid) {
  int status = 0;
  const bool ended = wait_until(15, [&] { return ::waitpid(pid, &status, WNOHANG) == pid; });
  EXPECT_TRUE(ended) << "still running\n" << output();
  if (!ended) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
  }
  std::erase(running_, pid);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string ProgramRun::output() const {
  return contents(folder_ / "output");
}

std::string ProgramRun::kept(int rank) const {
  return contents(folder_ / ("kept." + std::to_string(rank)));
}

std::string ProgramRun::survivors() const {
  std::string names;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("pid.")) continue;
    const pid_t pid = std::atoi(contents(entry.path()).c_str());
    if (!wait_until(5, [&] { return !alive(pid); })) names += name + " ";
  }
  return names;
}

std::string rank_program() {
  return LAUNCH_PROGRAM_FOLDER "/launch_rank_program";
}

std::vector<std::string> mpirun_command(int ranks) {
  std::vector<std::string> command{"mpirun", "--oversubscribe",    "--bind-to", "none",
                                   "-np",    std::to_string(ranks)};
  if (::geteuid() == 0) command.emplace_back("--allow-run-as-root");
  return command;
}

std::string tcp_rank_program() {
  return LAUNCH_PROGRAM_FOLDER "/launch_rank_program_tcp";
}

}  // namespace lockstep::launch::testing
