#include "cli/program.h"

#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::test {
namespace fs = std::filesystem;
namespace {

constexpr const char* kMark = "LOCKSTEP_TEST_MARK";

std::string slurp(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return std::move(text).str();
}

bool is_zombie(const fs::path& process) {
  const std::string stat = slurp(process / "stat");
  const size_t end = stat.rfind(')');
  return end != std::string::npos && end + 2 < stat.size() && stat[end + 2] == 'Z';
}

}  // namespace

Program::Program(std::vector<std::string> command, const Environment& environment)
    : mark_(folder_.path().filename().string()) {
  if (command.front() == "lockstep") command.front() = LOCKSTEP_PROGRAM;
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("cannot start a process");
  if (pid_ == 0) {
    ::setpgid(0, 0);
    // The same surroundings on every machine.
    ::setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
    for (const auto& [name, value] : environment) {
      value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
    }
    ::setenv(kMark, mark_.c_str(), 1);
    const int input = ::open("/dev/null", O_RDONLY);
    const int output = ::open(folder_.path("stdout").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    const int error = ::open(folder_.path("stderr").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(input, STDIN_FILENO);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(error, STDERR_FILENO);
    std::vector<char*> arguments;
    for (std::string& argument : command) arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
}

Program::~Program() {
  for (const pid_t pid : descendants()) ::kill(pid, SIGKILL);
  if (!reaped_) ::waitpid(pid_, &status_, 0);
}

bool Program::has_ended() {
  if (!reaped_) reaped_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
  return reaped_;
}

bool Program::poll_until(double seconds, const std::function<bool()>& done) const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

int Program::wait(double seconds) {
  if (!poll_until(seconds, [this] { return has_ended(); })) {
    ADD_FAILURE() << "still running after " << seconds << " s\nstdout:\n"
                  << output() << "\nstderr:\n"
                  << error();
    for (const pid_t pid : descendants()) ::kill(pid, SIGKILL);
    reaped_ = ::waitpid(pid_, &status_, 0) == pid_;
  }
  return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
}

bool Program::wait_for_error(const std::string& text, double seconds) {
  bool found = false;
  poll_until(seconds, [&] {
    const bool ended = has_ended();
    found = error().find(text) != std::string::npos;
    return found || ended;
  });
  return found;
}

std::string Program::output() const {
  return slurp(folder_.path("stdout"));
}
std::string Program::error() const {
  return slurp(folder_.path("stderr"));
}

void Program::signal(int number) const {
  ::kill(pid_, number);
}

std::vector<pid_t> Program::descendants(const std::string& name, const std::string& value) const {
  const std::string mark = std::string(kMark) + "=" + mark_;
  const std::string wanted = name.empty() ? "" : name + "=" + value;
  std::vector<pid_t> found;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string id = entry.path().filename().string();
    if (id.find_first_not_of("0123456789") != std::string::npos) continue;
    std::istringstream environment(slurp(entry.path() / "environ"));
    bool marked = false;
    bool matches = wanted.empty();
    for (std::string variable; std::getline(environment, variable, '\0');) {
      marked |= variable == mark;
      matches |= variable == wanted;
    }
    if (marked && matches && !is_zombie(entry.path())) found.push_back(std::stoi(id));
  }
  return found;
}

bool Program::nothing_left_behind(double seconds) const {
  return poll_until(seconds, [this] { return descendants().empty(); });
}

Finished run(std::vector<std::string> command, const Program::Environment& environment, double seconds) {
  Program program(std::move(command), environment);
  Finished finished;
  finished.exit_code = program.wait(seconds);
  EXPECT_TRUE(program.nothing_left_behind());
  finished.output = program.output();
  finished.error = program.error();
  return finished;
}

size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace lockstep::test
