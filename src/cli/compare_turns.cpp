#include "compare_turns.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/plain_text.h"
#include "lockstep/base/tcp_socket.h"
#include "lockstep/base/units.h"
#include "lockstep/results/files/record_json.h"

#include "console.h"

namespace lockstep::cli {
namespace fs = std::filesystem;
namespace {

/// This program, whatever its path was when it was started.
constexpr const char* kThisProgram = "/proc/self/exe";

UniqueFd open_log(const fs::path& path) {
  UniqueFd log(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log) throw Error(fmt::format("cannot write '{}': {}", path.string(), std::strerror(errno)));
  return log;
}

size_t size_of(const fs::path& path) {
  std::error_code missing;
  const auto size = fs::file_size(path, missing);
  return missing ? 0 : static_cast<size_t>(size);
}

/// "-1.2 ± 0.6 %" for each row, for a line of progress.
std::string so_far(const results::Diff& diff) {
  std::string text;
  for (const results::DiffRow& row : diff.rows) {
    const auto interval = row.verdict.change_percent_interval();
    if (!interval) continue;
    text += fmt::format("{}{:+.1f} ± {:.1f} %", text.empty() ? "" : "; ", row.verdict.change_percent(),
                        0.5 * (interval->upper - interval->lower));
  }
  return text;
}

}  // namespace

TurnFolder::TurnFolder(const std::string& keep, bool force) : folder_(keep), kept_(!keep.empty()) {
  if (!kept_) {
    folder_ = make_private_folder("lockstep-compare");
    return;
  }
  std::error_code failed;
  fs::create_directory(folder_, failed);
  if (failed) {
    throw ConfigError(fmt::format("--keep '{}' cannot be made: {}", keep, failed.message()),
                      "Give a folder that can be written.");
  }
  for (const fs::path& file : {base(), test(), log()}) {
    if (!fs::exists(file)) continue;
    if (!force) {
      throw ConfigError(fmt::format("--keep: '{}' is there already, and would be lost", file.string()),
                        "Choose another folder, or add --force to replace it.");
    }
    fs::remove(file);
  }
}

TurnFolder::~TurnFolder() {
  std::error_code ignored;
  if (!kept_) fs::remove_all(folder_, ignored);
}

TurnRunner::TurnRunner(TurnOptions options) : options_(std::move(options)), plan_(options_.most_pairs) {
  options_.how.paired = true;
  turns_.looks = plan_.looks().size();
}

void TurnRunner::run() {
  began_s_ = now_s();
  const auto conclude = [&] {
    turns_.elapsed_s = now_s() - began_s_;
    const bool early =
        turns_.end == results::TurnsEnd::kFailed || turns_.end == results::TurnsEnd::kInterrupted;
    if (early && turns_.pairs > 0) compare_pairs(true);
  };
  try {
    take_turns();
  } catch (...) {
    turns_.end = results::TurnsEnd::kFailed;
    conclude();
    throw;
  }
  conclude();
}

void TurnRunner::take_turns() {
  while (true) {
    const bool base_first = turns_.pairs % 2 == 0;
    const TurnSide& first = base_first ? options_.base : options_.test;
    const TurnSide& second = base_first ? options_.test : options_.base;
    turns_.end = results::TurnsEnd::kInterrupted;
    if (!launch(first) || !launch(second)) return;
    base_ = results::read_record(options_.base.file);
    test_ = results::read_record(options_.test.file);
    const auto pairs = static_cast<double>(++turns_.pairs);
    const bool last = turns_.pairs == options_.most_pairs;
    // Whether the next pair would end too late.
    const bool late = (now_s() - began_s_) * (pairs + 1) / pairs > options_.max_time_s;
    if (!last && !late && !plan_.is_look(turns_.pairs)) continue;
    const bool certain = compare_pairs(last || late);
    print_note(fmt::format("after {} pairs: {}", turns_.pairs, so_far(*diff_)));
    turns_.end = certain ? results::TurnsEnd::kCertain
                 : last  ? results::TurnsEnd::kMostLaunches
                         : results::TurnsEnd::kMaxTime;
    if (certain || last || late) return;
  }
}

bool TurnRunner::launch(const TurnSide& side) {
  ++launches_;
  const UniqueFd log = open_log(options_.log);
  const size_t log_begin = size_of(options_.log);
  const double began_s = now_s();
  const launch::ChildEnd end =
      launch::run_child({kThisProgram, side.command, {}, log.get(), log.get()}, [&] { draw(side, began_s); });
  if (end.interrupted_by) {
    interrupted_by_ = end.interrupted_by;
    return false;
  }
  if (end.exit_code != kExitDone) fail(side, end.exit_code, log_begin);
  print_note(fmt::format("launch {} of at most {}: {}, took {}", launches_, 2 * options_.most_pairs,
                         side.name, format_duration(now_s() - began_s)));
  return true;
}

bool TurnRunner::compare_pairs(bool last) {
  options_.how.confidence = plan_.confidence_of_look(last);
  diff_ = results::compare_records(base_, test_, options_.how);
  return std::ranges::none_of(diff_->rows, [](const results::DiffRow& row) {
    return measure::certainty_of(row.verdict) == measure::Certainty::kOpen;
  });
}

void TurnRunner::draw(const TurnSide& side, double began_s) const {
  if (!stderr_is_terminal() || is_quiet()) return;
  std::string text = fmt::format("[{} of at most {}] {}: {}", launches_, 2 * options_.most_pairs, side.name,
                                 format_duration(std::floor(now_s() - began_s)));
  if (diff_) text += ", so far " + so_far(*diff_);
  text += fmt::format(", at most {} left",
                      format_duration(std::max(0.0, std::floor(options_.max_time_s - (now_s() - began_s_)))));
  draw_progress(text);
}

void TurnRunner::fail(const TurnSide& side, int exit_code, size_t log_begin) const {
  std::string printed = read_file(options_.log).substr(log_begin);
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
