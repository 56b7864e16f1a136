#include "cuda_kernels/image_data.h"

#include <algorithm>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/log2.h>

namespace lockstep::cuda_kernels {
namespace {

constexpr int64_t kGuardBytes = 256;
constexpr uint8_t kGuard = 0xa5;

/// Bits of the fraction, and the exponent of the smallest normal number.
struct Format {
  int fraction;
  int least_exponent;
};

Format format_of(Number number) {
  switch (number) {
    case Number::kFloat:
      return {23, -126};
    case Number::kBf16:
      return {7, -126};
    case Number::kHalf:
      return {10, -14};
  }
  return {};
}

double largest(const at::Tensor& values) {
  return values.numel() == 0 ? 0 : values.abs().max().item<double>();
}

}  // namespace

at::ScalarType scalar_type(Number number) {
  return number == Number::kFloat ? at::kFloat : number == Number::kBf16 ? at::kBFloat16 : at::kHalf;
}

GuardedValues::GuardedValues(Number number, int64_t count, int shift) : number_(number), count_(count) {
  const auto size = static_cast<int64_t>(c10::elementSize(scalar_type(number)));
  bytes_.assign(static_cast<size_t>(count * size + 3 * kGuardBytes), kGuard);
  const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
  begin_bytes_ = kGuardBytes + static_cast<int64_t>(-address % 16) + shift * size;
}

void* GuardedValues::data() {
  return bytes_.data() + begin_bytes_;
}

at::Tensor GuardedValues::tensor() {
  return at::from_blob(data(), {count_}, scalar_type(number_));
}

bool GuardedValues::is_guarded() const {
  const auto size = static_cast<int64_t>(c10::elementSize(scalar_type(number_)));
  const auto begin = bytes_.begin() + begin_bytes_;
  const auto is_guard = [](uint8_t byte) { return byte == kGuard; };
  return std::all_of(bytes_.begin(), begin, is_guard) &&
         std::all_of(begin + count_ * size, bytes_.end(), is_guard);
}

at::Tensor units_of(const at::Tensor& values, Number number) {
  const Format format = format_of(number);
  const at::Tensor exponents =
      at::floor(at::log2(values.abs().to(at::kDouble))).clamp_min(format.least_exponent);
  return at::exp2(exponents - format.fraction);
}

void expect_rounded(const at::Tensor& found, const at::Tensor& exact, Number number, const char* what) {
  const at::Tensor allowed = units_of(exact, number) * 0.5 + 1e-5 * (largest(exact) + 1e-2);
  const at::Tensor beyond = (found.to(at::kDouble) - exact).abs() - allowed;
  // Not greater, so that what is no number fails.
  EXPECT_TRUE(beyond.le(0).all().item<bool>()) << what << ": " << beyond.max().item<double>() << " too far";
}

void expect_fp32(const at::Tensor& found, const at::Tensor& exact, const char* what) {
  const double error = largest(found.to(at::kDouble) - exact);
  EXPECT_LE(error, 1e-5 * (largest(exact) + 1e-2)) << what;
}

}  // namespace lockstep::cuda_kernels
