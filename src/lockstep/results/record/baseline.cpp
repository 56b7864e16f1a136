#include "lockstep/results/record/baseline.h"

#include <algorithm>
#include <tuple>

namespace lockstep::results {
namespace {

constexpr const char* kSingle = "single";
constexpr const char* kIndependent = "independent";

auto work_of(const Run& run) {
  // Strong scaling: the batch per rank follows from the number of ranks.
  const int batch_per_rank = run.global_batch > 0 ? 0 : run.batch_per_rank;
  return std::make_tuple(run.model, batch_per_rank, run.global_batch, run.precision, run.kernels,
                         run.memory_format, run.device, run.cuda_graph, run.input, run.data,
                         run.input_options, run.image_size, run.threads_per_rank, run.accumulate);
}

bool same_communication(const Run& a, const Run& b) {
  return a.backend == b.backend && a.bucket_mb == b.bucket_mb && a.strategy_options == b.strategy_options;
}

}  // namespace

bool communicates(const Run& run) {
  return run.strategy != kSingle && run.strategy != kIndependent;
}

bool same_work(const Run& a, const Run& b) {
  return work_of(a) == work_of(b);
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
    const Run* baseline = baseline_of(record, run);
    if (baseline == nullptr || !(baseline->images_per_s > 0)) continue;
    run.baseline = Baseline{baseline->strategy, baseline->ranks, baseline->images_per_s};
    run.speedup = run.images_per_s / baseline->images_per_s;
    run.efficiency = *run.speedup * baseline->ranks / run.ranks;
  }
}

}  // namespace lockstep::results
