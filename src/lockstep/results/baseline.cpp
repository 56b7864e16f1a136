#include "lockstep/results/baseline.h"

#include <algorithm>
#include <tuple>

namespace lockstep::results {
namespace {

constexpr const char* kSingle = "single";
constexpr const char* kIndependent = "independent";

auto work_of(const Run& run) {
  return std::tie(run.model, run.batch_per_rank, run.precision, run.memory_format, run.device, run.input,
                  run.image_size, run.threads_per_rank);
}

}  // namespace

bool same_work(const Run& a, const Run& b) {
  return work_of(a) == work_of(b);
}

const Run* independent_of(const RunRecord& record, const Run& run) {
  const auto found = std::ranges::find_if(record.runs, [&](const Run& other) {
    return other.strategy == kIndependent && other.ranks == run.ranks && same_work(other, run);
  });
  return found == record.runs.end() ? nullptr : &*found;
}

const Run* single_of(const RunRecord& record, const Run& run) {
  const auto found = std::ranges::find_if(
      record.runs, [&](const Run& other) { return other.strategy == kSingle && same_work(other, run); });
  return found == record.runs.end() ? nullptr : &*found;
}

bool is_control(const RunRecord& record, const Run& run) {
  if (run.strategy == kSingle) return true;
  return !record.strategies.empty() &&
         std::ranges::find(record.strategies, run.strategy) == record.strategies.end();
}

void assign_baselines(RunRecord& record) {
  for (Run& run : record.runs) {
    run.baseline.reset();
    run.speedup.reset();
    run.efficiency.reset();
    const Run* single = single_of(record, run);
    if (single == nullptr || !(single->images_per_s > 0)) continue;
    run.baseline = Baseline{single->strategy, single->ranks, single->images_per_s};
    run.speedup = run.images_per_s / single->images_per_s;
    run.efficiency = *run.speedup * single->ranks / run.ranks;
  }
}

}  // namespace lockstep::results
