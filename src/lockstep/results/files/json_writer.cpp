#include "lockstep/results/files/json_writer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lockstep/results/files/json_codec.h"
#include "lockstep/results/files/system_json.h"
#include "lockstep/results/record/baseline.h"
#include "lockstep/results/record/summarize.h"

namespace lockstep::results {
namespace {

/// 25 and not 25.0, as PyTorch's benchmark writes it; its diff.py shows the text of the number.
Json whole_if_possible(double value) {
  const bool whole = std::trunc(value) == value && std::abs(value) < 1e15;
  return whole ? Json(static_cast<int64_t>(value)) : Json(value);
}

/// The rows that PyTorch's diff.py compares: for each model and batch the row without a strategy, then the
/// first strategy of the sweep by ascending ranks, with the first backend, precision, kernels and bucket
/// size.
struct PytorchRows {
  std::string model;
  int batch_size = 0;
  /// Null where it is missing (an incomplete record).
  const Run* no_ddp = nullptr;
  std::vector<const Run*> ddp;
};

/// The first run of the strategy that was asked for first. Null when nothing but controls was measured.
const Run* first_of_sweep(const RunRecord& record) {
  const Run* first = nullptr;
  for (const Run& run : record.runs) {
    if (is_control(record, run)) continue;
    if (!record.strategies.empty() && run.strategy == record.strategies.front()) return &run;
    if (first == nullptr) first = &run;
  }
  return first;
}

/// Pointers into `record`, in the order of its runs.
std::vector<PytorchRows> pytorch_rows(const RunRecord& record) {
  const Run* first = first_of_sweep(record);
  std::vector<PytorchRows> all;
  for (const Run& run : record.runs) {
    auto rows = std::ranges::find_if(all, [&](const PytorchRows& known) {
      return known.model == run.model && known.batch_size == run.batch_per_rank;
    });
    if (rows == all.end()) rows = all.insert(all.end(), {run.model, run.batch_per_rank, nullptr, {}});
    if (run.role() == Role::kBaseline) {
      if (rows->no_ddp == nullptr) rows->no_ddp = &run;
      continue;
    }
    if (first == nullptr || run.strategy != first->strategy || run.backend != first->backend ||
        run.precision != first->precision || run.kernels != first->kernels ||
        run.bucket_mb != first->bucket_mb) {
      continue;
    }
    if (rows->ddp.empty() || same_work(*rows->ddp.front(), run)) rows->ddp.push_back(&run);
  }
  for (PytorchRows& rows : all) {
    std::ranges::stable_sort(rows.ddp, {}, &Run::ranks);
    if (!rows.ddp.empty()) rows.no_ddp = single_of(record, *rows.ddp.front());
    // Under strong scaling the baseline has another batch.
    if (rows.no_ddp != nullptr && rows.no_ddp->batch_per_rank != rows.batch_size) rows.no_ddp = nullptr;
  }
  return all;
}

Json pytorch_result(const Run* run) {
  std::vector<int> ranks(run == nullptr ? 1 : static_cast<size_t>(run->ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  Json measurements = Json::array();
  if (run != nullptr) {
    for (const double step_s : representative_steps(*run)) {
      // diff.py takes percentiles of the list: a null in it would end it.
      if (std::isfinite(step_s)) measurements.push_back(step_s);
    }
  }
  return {{"ranks", std::move(ranks)}, {"measurements", std::move(measurements)}};
}

Json benchmark_results(const RunRecord& record) {
  Json all = Json::array();
  for (const PytorchRows& rows : pytorch_rows(record)) {
    // diff.py skips the first result, whatever it is: without a measured one its place is held.
    Json results = Json::array({pytorch_result(rows.no_ddp)});
    for (const Run* run : rows.ddp) {
      Json result = pytorch_result(run);
      if (!result["measurements"].empty()) results.push_back(std::move(result));
    }
    all.push_back({{"model", rows.model}, {"batch_size", rows.batch_size}, {"result", std::move(results)}});
  }
  return all;
}

}  // namespace

std::string to_json(const RunRecord& record) {
  Json ours{{"schema_version", kSchemaVersion}};
  ours.update(encode(record));
  return to_text({
      {"pytorch_version", record.torch_version},
      {"cuda_version", record.cuda_version.empty() ? Json(nullptr) : Json(record.cuda_version)},
      {"distributed_backend", record.distributed_backend},
      {"bucket_size", whole_if_possible(record.bucket_size_mb)},
      {"benchmark_results", benchmark_results(record)},
      {"lockstep", std::move(ours)},
  });
}

std::string machine_to_json(const Machine& machine) {
  return to_text(encode(machine));
}

}  // namespace lockstep::results
