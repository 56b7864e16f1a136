#include "lockstep/results/record/baseline.h"

#include <algorithm>
#include <string_view>

namespace lockstep::results {
namespace {

/// Whether two runs have all settings of communication alike but for the strategy.
bool same_communication(const Run& a, const Run& b) {
  return std::ranges::all_of(kSettings, [&](const Setting& setting) {
    return !setting.of_communication || setting.key == std::string_view("strategy") || setting.same(a, b);
  });
}

/// Under strong scaling the batch per rank follows from the number of ranks.
bool follows_from_ranks(const Setting& setting, const Run& run) {
  return setting.member == Setting::Member(&Setup::ranks) ||
         (setting.member == Setting::Member(&Setup::batch_per_rank) && run.global_batch > 0);
}

}  // namespace

bool same_work(const Run& a, const Run& b) {
  return std::ranges::all_of(kSettings, [&](const Setting& setting) {
    const bool of_work = setting.distinction == Distinction::kIdentity ||
                         (setting.distinction == Distinction::kAttribute && !setting.of_communication);
    return !of_work || follows_from_ranks(setting, a) || setting.same(a, b);
  });
}

bool same_row(const Run& a, const Run& b) {
  if (!same_work(a, b) || a.strategy != b.strategy || a.ranks != b.ranks || a.hosts != b.hosts) return false;
  return !communicates(a) || same_communication(a, b);
}

const Run* baseline_of(const RunRecord& record, const Run& run) {
  const Run* found = nullptr;
  for (const Run& other : record.runs) {
    if (other.strategy != record.baseline_strategy || !same_work(other, run)) continue;
    if (record.baseline_ranks != 0 && other.ranks != record.baseline_ranks) continue;
    // A baseline that communicates is one of its own kind.
    if (communicates(other) && communicates(run) && other.strategy == run.strategy &&
        !same_communication(other, run)) {
      continue;
    }
    if (found == nullptr || other.ranks < found->ranks) found = &other;
  }
  return found;
}

const Run* independent_of(const RunRecord& record, const Run& run) {
  const auto found = std::ranges::find_if(record.runs, [&](const Run& other) {
    return other.role() == Role::kControl && other.ranks == run.ranks && same_work(other, run);
  });
  return found == record.runs.end() ? nullptr : &*found;
}

const Run* single_of(const RunRecord& record, const Run& run) {
  const auto found = std::ranges::find_if(record.runs, [&](const Run& other) {
    return other.role() == Role::kBaseline && same_work(other, run);
  });
  return found == record.runs.end() ? nullptr : &*found;
}

bool is_control(const RunRecord& record, const Run& run) {
  if (run.role() == Role::kBaseline) return true;
  return !record.strategies.empty() &&
         std::ranges::find(record.strategies, run.strategy) == record.strategies.end();
}

void assign_baselines(RunRecord& record) {
  for (Run& run : record.runs) {
    run.baseline.reset();
    run.speedup.reset();
    run.efficiency.reset();
    const Run* baseline = baseline_of(record, run);
    if (baseline == nullptr || !(baseline->images_per_s > 0)) continue;
    run.baseline = Baseline{baseline->strategy, baseline->ranks, baseline->images_per_s};
    run.speedup = run.images_per_s / baseline->images_per_s;
    run.efficiency = *run.speedup * baseline->ranks / run.ranks;
  }
}

}  // namespace lockstep::results
