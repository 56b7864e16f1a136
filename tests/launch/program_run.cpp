#include "launch/program_run.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

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

ProgramRun::ProgramRun() {
  std::string name = (fs::temp_directory_path() / "lockstep-launch-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  folder_ = name;
}

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
  fs::remove_all(folder_);
}

pid_t ProgramRun::start(const std::vector<std::string>& command, const Environment& environment) {
  std::vector<std::string> arguments = command;
  arguments.insert(arguments.end(), {"--folder", folder_.string()});
  std::vector<char*> argument_pointers;
  for (std::string& argument : arguments) argument_pointers.push_back(argument.data());
  argument_pointers.push_back(nullptr);

  // Ranks leave without taking down their threads, which a thread sanitizer would tell.
  std::vector<std::string> variables{"TSAN_OPTIONS=report_thread_leaks=0:atexit_sleep_ms=0"};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    bool replaced = text.starts_with("TSAN_OPTIONS=");
    for (const auto& [name, value] : environment) replaced = replaced || text.starts_with(name + "=");
    if (!replaced) variables.push_back(text);
  }
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  std::vector<char*> variable_pointers;
  for (std::string& variable : variables) variable_pointers.push_back(variable.data());
  variable_pointers.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  const std::string output = (folder_ / "output").string();
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                     0600);
  ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  // As a shell in a terminal would start it, whatever this test program was started with.
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCHLD}) sigaddset(&defaults, signal);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);

  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, argument_pointers[0], &actions, &attributes,
                                   argument_pointers.data(), variable_pointers.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) throw std::runtime_error("cannot start " + command[0]);
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

std::string tcp_rank_program() {
  return LAUNCH_PROGRAM_FOLDER "/launch_rank_program_tcp";
}

}  // namespace lockstep::launch::testing
