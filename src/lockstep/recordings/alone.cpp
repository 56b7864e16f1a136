#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/recordings/import.h"
#include "lockstep/results/record/baseline.h"

namespace lockstep::recordings {

void add_alone(results::RunRecord& record, const results::RunRecord& alone) {
  const auto one = std::ranges::find_if(
      alone.runs, [](const results::Run& run) { return run.ranks == 1 && run.finished(); });
  if (one == alone.runs.end())
    throw ConfigError("--alone has no run of one rank",
                      "Give a trace, a recording or a result of the same script on one rank.");
  results::Run& run = record.runs.front();
  results::Run baseline = *one;
  const int64_t batch = baseline.batch_per_rank, accumulate = baseline.accumulate;
  static_cast<results::Setup&>(baseline) = run;
  baseline.ranks = baseline.hosts = 1;
  baseline.strategy = results::kSingle;
  baseline.backend.clear();
  if (baseline.unit != one->unit || run.unit == "step") {
    // Samples are not known of both: steps of a rank are compared with steps of the one.
  } else if (batch * accumulate == int64_t{run.batch_per_rank} * run.accumulate * run.ranks &&
             run.ranks > 1) {
    // The job's whole batch on one rank: strong scaling.
    run.global_batch = baseline.global_batch = static_cast<int>(batch * accumulate);
    baseline.batch_per_rank = static_cast<int>(batch);
    baseline.accumulate = static_cast<int>(accumulate);
  } else if (batch * accumulate != int64_t{run.batch_per_rank} * run.accumulate) {
    throw ConfigError(fmt::format("--alone trains {} samples in a step, and a rank of the job {}",
                                  batch * accumulate, int64_t{run.batch_per_rank} * run.accumulate),
                      "Record one rank with the same batch per rank, or with the whole batch of the job.");
  }
  record.runs.insert(record.runs.begin(), std::move(baseline));
  results::assign_baselines(record);
  results::assign_factors(record);
}

}  // namespace lockstep::recordings
