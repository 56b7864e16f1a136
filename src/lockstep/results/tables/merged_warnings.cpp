#include <algorithm>

#include <fmt/format.h>

#include "lockstep/results/record/launches.h"
#include "lockstep/results/tables/notices.h"
#include "lockstep/results/tables/row_tables.h"

namespace lockstep::results {
namespace {

/// Rows that one warning names; the others are counted.
constexpr size_t kMostNamedRows = 4;
/// Efficiency of ranks that do not communicate above which their baseline cannot have been undisturbed.
constexpr double kMostEfficient = 1.1;

/// Names that tell the rows of a record apart: "lenet5 ddp at 2 ranks, buckets of 1 MiB".
class RowNames {
 public:
  explicit RowNames(const RunRecord& record) {
    std::vector<const Run*> runs;
    for (const Run& run : record.runs) {
      if (communicates(run)) runs.push_back(&run);
      batches_vary_ |= run.batch_per_rank != record.runs.front().batch_per_rank;
    }
    varied_ = varied_settings(runs);
  }

  std::string of(const Run& run) const {
    return fmt::format("{} {} at {}{}{}", run.model, run.strategy, counted(run.ranks, "rank"),
                       batches_vary_ ? fmt::format(", batch {}", run.batch_per_rank) : "",
                       settings_text(run, varied_));
  }

 private:
  std::vector<const Setting*> varied_;
  bool batches_vary_ = false;
};

/// A row's part in a warning that several rows share.
struct WarnedRow {
  const Run* run = nullptr;
  int launches = 0;
};

/// " in 3 of 5 launches"; empty where there was one launch.
std::string launches_text(int launches, int of) {
  return of > 1 ? fmt::format(" in {} of {} launches", std::min(launches, of), of) : "";
}

std::string launches_in_brackets(int launches, int of) {
  const std::string text = launches_text(launches, of);
  return text.empty() ? "" : fmt::format(" ({})", text.substr(1));
}

/// "Likewise: lenet5 ddp at 2 ranks in 3 of 5 launches, ... and 7 more rows."
std::string likewise_text(const std::vector<WarnedRow>& rows, const RowNames& names) {
  if (rows.size() < 2) return "";
  std::string text = " Likewise: ";
  for (size_t i = 1; i < std::min(rows.size(), kMostNamedRows + 1); ++i) {
    text += fmt::format("{}{}{}", i > 1 ? "; " : "", names.of(*rows[i].run),
                        launches_text(rows[i].launches, launches(*rows[i].run)));
  }
  if (rows.size() > kMostNamedRows + 1) {
    text +=
        fmt::format("; and {}", counted(static_cast<int64_t>(rows.size() - kMostNamedRows - 1), "more row"));
  }
  return text + ".";
}

/// The warning with the same advice: launches and rows differ in figures only.
std::vector<Warning>::iterator find_alike(std::vector<Warning>& among, const Warning& warning) {
  return std::ranges::find_if(among, [&](const Warning& other) {
    return other.advice == warning.advice && other.loud == warning.loud;
  });
}

/// Warnings of a run, of its early end, and of an efficiency that its baseline makes impossible.
std::vector<Warning> warnings_of(const Run& run, const RunRecord& record) {
  std::vector<Warning> warnings = run.warnings;
  if (!run.finished()) {
    const auto steps = static_cast<int64_t>(run.samples.size() + run.warmup_samples.size());
    // The reason of an incomplete record stands below its tables already.
    const std::string reason = run.unfinished == record.incomplete ? "" : ": " + run.unfinished;
    warnings.push_back(
        {fmt::format("It is unfinished: it ended after {}{}.", counted(steps, "step"), reason),
         "It has no interval and no speed-up, and nothing is compared with it. Measure it again.", true,
         launches(run)});
  }
  if (run.role() == Role::kControl && run.efficiency && *run.efficiency > kMostEfficient) {
    warnings.push_back(
        {fmt::format("It is {:.0f} % efficient, but ranks that share a machine are no faster than one alone.",
                     100 * *run.efficiency),
         "Something slowed down the baseline: speed-ups and efficiencies are too high. Measure again.", false,
         launches(run)});
  }
  return warnings;
}

}  // namespace

std::vector<Warning> warnings_of_record(const RunRecord& record) {
  const int launches = std::max(1, static_cast<int>(record.launches_started_at.size()));
  std::vector<Warning> all;
  for (const Warning& warning : record.warnings) {
    const auto known = find_alike(all, warning);
    // Warnings of one launch concern different hosts.
    if (known == all.end() || launches == 1) {
      all.push_back(warning);
    } else {
      known->launches += warning.launches;
    }
  }
  for (Warning& warning : all) warning.text += launches_in_brackets(warning.launches, launches);
  return all;
}

std::vector<Warning> warnings_of_rows(const RunRecord& record) {
  if (record.runs.empty()) return {};
  const RowNames names(record);
  std::vector<Warning> all;
  std::vector<std::vector<WarnedRow>> rows;
  for (const Run& run : record.runs) {
    for (const Warning& warning : warnings_of(run, record)) {
      // Rows of a sweep tend to share their trouble: one warning per advice.
      const auto known = find_alike(all, warning);
      const auto place = static_cast<size_t>(known - all.begin());
      if (known == all.end()) {
        all.push_back(warning);
        rows.emplace_back();
      }
      if (rows[place].empty() || rows[place].back().run != &run) rows[place].push_back({&run});
      rows[place].back().launches += warning.launches;
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const WarnedRow& first = rows[i].front();
    all[i].text = fmt::format("{}: {}{}{}", names.of(*first.run), all[i].text,
                              launches_in_brackets(first.launches, launches(*first.run)),
                              likewise_text(rows[i], names));
  }
  return all;
}

}  // namespace lockstep::results
