#include "lockstep/kernels/counter_mask.h"

#include <bit>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_right_shift.h>

namespace lockstep::kernels {
namespace {

// Odd, and without a pattern: no small multiples of the three add up to the same.
constexpr uint64_t kPerStep = 0xd1b54a32d192ed03;
constexpr uint64_t kPerSample = 0xaef17502108ef2d9;
constexpr uint64_t kPerValue = 0x9e3779b97f4a7c15;

constexpr int kUsedBits = 31;

/// ATen's integers are signed, and wrap.
at::Scalar wrapped(uint64_t value) {
  return {std::bit_cast<int64_t>(value)};
}

/// Filled with zeros from the left, which ATen's shift is with signs.
at::Tensor shifted_right(const at::Tensor& x, int bits) {
  return at::bitwise_right_shift(x, bits).bitwise_and_(wrapped(~uint64_t{0} >> bits));
}

/// splitmix64's output function, in place.
void mix(const at::Tensor& x) {
  x.bitwise_xor_(shifted_right(x, 30)).mul_(wrapped(0xbf58476d1ce4e5b9));
  x.bitwise_xor_(shifted_right(x, 27)).mul_(wrapped(0x94d049bb133111eb));
  x.bitwise_xor_(shifted_right(x, 31));
}

}  // namespace

at::Tensor counter_mask(const at::Tensor& x, double probability, uint64_t stream, const Context& context) {
  const at::NoGradGuard no_grad;
  const at::TensorOptions integers = x.options().dtype(at::kLong);
  const int64_t samples = x.size(0);
  const at::Tensor of_sample =
      at::arange(context.first_sample, context.first_sample + samples, integers).mul_(wrapped(kPerSample));
  if (context.step_on_device != nullptr) {
    of_sample.add_(*context.step_on_device * wrapped(kPerStep)).add_(wrapped(stream));
  } else {
    of_sample.add_(wrapped(stream + static_cast<uint64_t>(context.step) * kPerStep));
  }
  mix(of_sample);
  const at::Tensor bits =
      at::arange(x.numel() / samples, integers).mul_(wrapped(kPerValue)).add(of_sample.unsqueeze(1));
  mix(bits);
  const auto dropped = static_cast<int64_t>(std::llround(std::ldexp(probability, kUsedBits)));
  return shifted_right(bits, 64 - kUsedBits)
      .ge(dropped)
      .to(x.scalar_type())
      .mul_(1 / (1 - probability))
      .view(x.sizes());
}

}  // namespace lockstep::kernels
