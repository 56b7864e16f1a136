#include "lockstep/results/record/pytorch_rows.h"

#include <algorithm>

#include "lockstep/results/record/baseline.h"

namespace lockstep::results {
namespace {

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

}  // namespace

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

}  // namespace lockstep::results
