#include "lockstep/kernels/local_response_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>

#include "lockstep/kernels/image_layout.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kNeighbors = 2;
constexpr double kBias = 2;
constexpr double kAlpha = 1e-4;
constexpr double kExponent = 0.75;

/// Sums each channel with its neighbors, as a sum of shifted copies of the image: several times faster on a
/// CPU than average pooling in three dimensions, and it keeps the memory format.
at::Tensor sum_over_neighbors(const at::Tensor& squares) {
  const int64_t channels = squares.size(1);
  const at::Tensor padded = at::constant_pad_nd(squares, {0, 0, 0, 0, kNeighbors, kNeighbors});
  at::Tensor sum = padded.narrow(1, 0, channels);
  for (int64_t shift = 1; shift <= 2 * kNeighbors; ++shift) sum = sum + padded.narrow(1, shift, channels);
  return sum;
}

}  // namespace

at::Tensor LocalResponseNorm::operator()(const at::Tensor& given, const Context& context) const {
  const at::Tensor x = to_plain(given);
  const at::Tensor base = sum_over_neighbors(x * x) * kAlpha + kBias;
  const at::Tensor divisor = base.pow(kExponent);
  if (context.cost != nullptr) {
    for (const at::Tensor& kept : {x, base, divisor}) context.cost->keep(kept);
  }
  return x / divisor;
}

}  // namespace lockstep::kernels
