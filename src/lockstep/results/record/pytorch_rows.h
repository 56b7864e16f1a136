#pragma once

#include <string>
#include <vector>

#include "lockstep/results/record/run_record.h"

namespace lockstep::results {

/// What PyTorch's diff.py compares: of each model and batch the row without a strategy, then the first
/// strategy of the sweep by ascending ranks, with the first backend, precision, kernels and bucket size.
struct PytorchRows {
  std::string model;
  int batch_size = 0;
  /// Null where it is missing (an incomplete record).
  const Run* no_ddp = nullptr;
  std::vector<const Run*> ddp;
};

/// Pointers into `record`, in the order of its runs.
std::vector<PytorchRows> pytorch_rows(const RunRecord& record);

}  // namespace lockstep::results
