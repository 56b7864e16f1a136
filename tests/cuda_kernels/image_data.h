#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/cuda_kernels/operations.h"

namespace lockstep::cuda_kernels {

at::ScalarType scalar_type(Number number);

/// Memory of `count` values with a guard on both sides. Begins at a multiple of 16 bytes, or `shift` values
/// after one.
class GuardedValues {
 public:
  GuardedValues(Number number, int64_t count, int shift = 0);

  void* data();
  /// A view of the values, one-dimensional.
  at::Tensor tensor();
  /// Whether nothing was written outside.
  bool is_guarded() const;

 private:
  Number number_;
  int64_t count_;
  int64_t begin_bytes_;
  std::vector<uint8_t> bytes_;
};

/// The distance between neighboring values of the format around each value, fp64.
at::Tensor units_of(const at::Tensor& values, Number number);

/// Fails unless found is exact within half a unit of the number format, rounding, and 1e-5 of the
/// largest value, the error of fp32's sums.
void expect_rounded(const at::Tensor& found, const at::Tensor& exact, Number number, const char* what);

/// Fails unless each value is exact within 1e-5 of the largest one.
void expect_fp32(const at::Tensor& found, const at::Tensor& exact, const char* what);

}  // namespace lockstep::cuda_kernels
