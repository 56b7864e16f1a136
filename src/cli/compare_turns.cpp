#include "compare_turns.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/units.h"
#include "lockstep/results/files/record_json.h"

#include "console.h"

namespace lockstep::cli {
namespace fs = std::filesystem;
namespace {

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

TurnFolder::TurnFolder(const std::string& keep, bool force)
    // Ranks of a launch outlive it by two seconds.
    : folder_(make_private_folder("lockstep-compare"), std::chrono::milliseconds(2500)), kept_(keep) {
  if (kept_.empty()) return;
  std::error_code failed;
  fs::create_directory(kept_, failed);
  if (failed) {
    throw ConfigError(fmt::format("--keep '{}' cannot be made: {}", keep, failed.message()),
                      "Give a folder that can be written.");
  }
  for (const fs::path& file : {base(), test(), log()}) {
    const fs::path kept = kept_ / file.filename();
    if (!force && fs::exists(kept, failed)) {
      throw ConfigError(fmt::format("--keep: '{}' is there already, and would be lost", kept.string()),
                        "Choose another folder, or add --force to replace it.");
    }
    check_outputs({{"--keep", kept}});
  }
}

Trouble TurnFolder::save() const {
  std::error_code missing;
  try {
    for (const fs::path& file : {base(), test(), log()}) {
      if (!kept_.empty() && fs::exists(file, missing))
        write_file_atomically(kept_ / file.filename(), read_file(file));
    }
  } catch (const Error& error) {
    return {error.what(), "Is the folder of --keep there, and has its disk room?"};
  }
  return {};
}

TurnRunner::TurnRunner(TurnOptions options)
    : options_(std::move(options)),
      plan_(options_.most_pairs),
      launcher_(options_.log, fmt::format("at most {}", 2 * options_.most_pairs)) {
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
    if (turns_.pairs == 0) check_judgeable();
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
  const bool ended = launcher_.launch(side, [&] {
    const double left_s = std::max(0.0, std::floor(options_.max_time_s - (now_s() - began_s_)));
    return fmt::format("{}, at most {} left", diff_ ? ", so far " + so_far(*diff_) : "",
                       format_duration(left_s));
  });
  options_.save();
  return ended;
}

void TurnRunner::check_judgeable() const {
  const results::Diff diff = results::compare_records(base_, test_, options_.how);
  if (std::ranges::any_of(diff.rows, [](const results::DiffRow& row) { return row.verdict.base_s > 0; }))
    return;
  throw Error(fmt::format("the launches cannot be compared: {}", diff.rows.front().verdict.reason),
              "Give more --row-time or --steps, or a lower --by.");
}

bool TurnRunner::compare_pairs(bool last) {
  options_.how.confidence = plan_.confidence_of_look(last);
  diff_ = results::compare_records(base_, test_, options_.how);
  return diff_->is_certain();
}

}  // namespace lockstep::cli
