#pragma once

#include <string>

#include "lockstep/base/fields.h"

namespace lockstep::results {

/// How `--kernels auto` chose for the rows of one network: seconds of a step with either choice, on the
/// slowest of the ranks, which all tried at the same time.
struct KernelTrial {
  /// The settings that the rows have in common; of strong scaling, the batch of the whole job, and 0.
  std::string model;
  std::string precision;
  int image_size = 0;
  int global_batch = 0;
  int batch_per_rank = 0;
  /// Of a long step only some images are tried, and the time is multiplied.
  double fused_s = 0;
  double aten_s = 0;
  /// The choice: "fused" or "aten".
  std::string kernels;

  LOCKSTEP_DESCRIBE(kOptional, model, precision, image_size, global_batch, batch_per_rank, fused_s, aten_s,
                    kernels)

  /// Whether both chose for the same rows.
  bool same_rows(const KernelTrial& other) const {
    return model == other.model && precision == other.precision && image_size == other.image_size &&
           global_batch == other.global_batch && batch_per_rank == other.batch_per_rank;
  }
};

}  // namespace lockstep::results
