#include <algorithm>
#include <cmath>

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
  if (one->batch_is_known() != run.batch_is_known())
    throw ConfigError(
        fmt::format("how many samples {} trains in a step is not known, and the other's rate counts samples",
                    run.batch_is_known() ? "--alone" : "a rank of the job"),
        "--samples-per-step N says it for traces; a result says it if it was imported with that flag.");
  results::Run baseline = *one;
  const double of_one = one->images_per_rank_step(), of_rank = run.images_per_rank_step();
  // Epochs of other lengths end with smaller batches.
  const auto same = [&](double samples) { return std::abs(of_one - samples) < 0.1 * of_one; };
  static_cast<results::Setup&>(baseline) = run;
  baseline.ranks = baseline.hosts = 1;
  baseline.strategy = results::kSingle;
  baseline.backend.clear();
  if (!run.batch_is_known()) {
    // Steps of a rank are compared with steps of the one.
  } else if (same(of_rank * run.ranks) && run.ranks > 1) {
    // The job's whole batch on one rank: strong scaling.
    run.global_batch = baseline.global_batch = one->batch_per_rank * one->accumulate;
    baseline.batch_per_rank = one->batch_per_rank;
    baseline.accumulate = one->accumulate;
  } else if (!same(of_rank)) {
    throw ConfigError(
        fmt::format("--alone trains {:.4g} samples in a step, and a rank of the job {:.4g}", of_one, of_rank),
        "Record one rank with the same batch per rank, or with the whole batch of the job.");
  }
  record.runs.insert(record.runs.begin(), std::move(baseline));
  results::assign_baselines(record);
  results::assign_factors(record);
}

}  // namespace lockstep::recordings
