#include "lockstep/kernels/local_response_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>

#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/layer_watch.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kNeighbours = 2;
constexpr double kOffset = 2;
constexpr double kScale = 1e-4;
constexpr double kExponent = 0.75;

/// Of all channels at once, as a sum of shifted copies: several times as fast on a CPU as average pooling in
/// three dimensions, and it leaves the memory format alone.
at::Tensor sum_over_neighbours(const at::Tensor& squares) {
  const int64_t channels = squares.size(1);
  const at::Tensor padded = at::constant_pad_nd(squares, {0, 0, 0, 0, kNeighbours, kNeighbours});
  at::Tensor sum = padded.narrow(1, 0, channels);
  for (int64_t shift = 1; shift <= 2 * kNeighbours; ++shift) sum = sum + padded.narrow(1, shift, channels);
  return sum;
}

}  // namespace

at::Tensor LocalResponseNorm::operator()(const at::Tensor& x, const Context& context) const {
  static const LayerForm form{.name = "", .kind = LayerKind::kResponseNorm};
  return as_layer(form, x, context, normalise);
}

at::Tensor LocalResponseNorm::normalise(const at::Tensor& given, const Context& context) {
  const at::Tensor x = to_plain(given);
  const at::Tensor base = sum_over_neighbours(x * x) * kScale + kOffset;
  const at::Tensor divisor = base.pow(kExponent);
  if (context.cost != nullptr) {
    for (const at::Tensor& kept : {x, base, divisor}) context.cost->keep(kept);
  }
  return x / divisor;
}

}  // namespace lockstep::kernels
