#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/results/tables/styles.h"

namespace lockstep::results {
namespace {

std::string speedup_text(const BucketTuning& tuning) {
  if (!tuning.speedup) return "";
  const std::string interval =
      tuning.speedup_low && tuning.speedup_high
          ? fmt::format(" [{:.2f}, {:.2f}]", *tuning.speedup_low, *tuning.speedup_high)
          : "";
  return fmt::format(" (x {:.2f} against {:g}{})", *tuning.speedup, tuning.default_mb, interval);
}

std::string verdict_text(const BucketTuning& tuning) {
  if (tuning.chosen_mb == tuning.default_mb) {
    return fmt::format("--bucket-mb {:g} stays: {}{}", tuning.chosen_mb, tuning.reason, speedup_text(tuning));
  }
  return fmt::format("--bucket-mb {:g}{}; use it next time with --bucket-mb {:g}", tuning.chosen_mb,
                     speedup_text(tuning), tuning.chosen_mb);
}

}  // namespace

std::string tuning_text(const RunRecord& record, TextForm form) {
  std::string text;
  for (const Run& run : record.runs) {
    if (!run.tuning) continue;
    std::string words =
        fmt::format("{} {} at {} ranks: {}.", run.model, run.strategy, run.ranks, verdict_text(*run.tuning));
    std::vector<std::string> tried;
    for (const BucketCandidate& candidate : run.tuning->candidates) {
      tried.push_back(fmt::format("{:g}: {:.4g}", candidate.bucket_mb, 1000 * candidate.step_s));
    }
    if (!tried.empty()) words += fmt::format(" Tried, MiB and ms per step: {}.", fmt::join(tried, ", "));
    text += remark("Tuned: ", words, form);
  }
  return text;
}

}  // namespace lockstep::results
