#include "bench_launcher.h"

#include <cerrno>
#include <cmath>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/plain_text.h"
#include "lockstep/base/tcp_socket.h"
#include "lockstep/base/units.h"

#include "console.h"

namespace lockstep::cli {
namespace fs = std::filesystem;
namespace {

/// This program, whatever its path was when it was started.
constexpr const char* kThisProgram = "/proc/self/exe";

}  // namespace

TurnSide side_of(std::string name, Arguments command, const fs::path& file, double row_time_s) {
  command.insert(command.end(), {"--no-controls", "--quiet", "--append", "--json", file.string(),
                                 "--max-time", fmt::format("{}", row_time_s)});
  return {.name = std::move(name), .command = std::move(command), .file = file};
}

BenchLauncher::BenchLauncher(const fs::path& log, std::string most)
    : log_(::open(log.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600)),
      most_(std::move(most)) {
  if (!log_) throw Error(fmt::format("cannot write '{}': {}", log.string(), std::strerror(errno)));
}

bool BenchLauncher::launch(const TurnSide& side, const std::function<std::string()>& state) {
  ++launches_;
  const auto log_begin = static_cast<size_t>(::lseek(log_.get(), 0, SEEK_END));
  const double began_s = now_s();
  const launch::ChildEnd end = launch::run_child({kThisProgram, side.command, {}, log_.get(), log_.get()},
                                                 signals_, [&] { draw(side, state, now_s() - began_s); });
  if (end.interrupted_by) {
    interrupted_by_ = end.interrupted_by;
    return false;
  }
  if (end.exit_code != kExitDone) fail(side, end.exit_code, log_begin);
  print_note(fmt::format("launch {} of {}: {}, took {}", launches_, most_, side.name,
                         format_duration(now_s() - began_s)));
  return true;
}

void BenchLauncher::draw(const TurnSide& side, const std::function<std::string()>& state,
                         double elapsed_s) const {
  if (!stderr_is_terminal() || is_quiet()) return;
  draw_progress(fmt::format("[{} of {}] {}: {}{}", launches_, most_, side.name,
                            format_duration(std::floor(elapsed_s)), state ? state() : ""));
}

void BenchLauncher::fail(const TurnSide& side, int exit_code, size_t log_begin) const {
  std::string printed = read_file(fmt::format("/proc/self/fd/{}", log_.get())).substr(log_begin);
  // Leaves out the description of the machine.
  if (const size_t error = printed.find("lockstep: error: "); error != std::string::npos)
    printed.erase(0, error);
  std::string text = fmt::format("launch {} ({}) ended with exit code {}", launches_, side.name, exit_code);
  if (!printed.empty()) text += fmt::format(":\n{}", printed.substr(0, printed.find_last_not_of('\n') + 1));
  const std::string advice = "It was: " + command_text(side.command);
  if (exit_code == kExitUsage) throw ConfigError(text, advice);
  if (exit_code == kExitBackendMissing) throw BackendMissing(text, advice);
  throw Error(text, advice);
}

}  // namespace lockstep::cli
