#include "lockstep/kernels/dropout.h"

#include <bit>
#include <cmath>
#include <utility>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/empty.h>

#include "lockstep/replica/random.h"

namespace lockstep::kernels {
namespace {

// Factors of the counters. Odd and without a pattern, so that no two small combinations of step, sample and
// value have the same sum.
constexpr uint64_t kPerStep = 0xd1b54a32d192ed03;
constexpr uint64_t kPerSample = 0xaef17502108ef2d9;
constexpr uint64_t kPerValue = 0x9e3779b97f4a7c15;

// The factors of splitmix64 (Steele, Lea and Flood 2014).
constexpr uint64_t kFirstFactor = 0xbf58476d1ce4e5b9;
constexpr uint64_t kSecondFactor = 0x94d049bb133111eb;

/// The bits of a random number that are compared with the probability. LibTorch's integers are signed, so one
/// less than 32.
constexpr int kUsedBits = 31;

/// The number of values of kUsedBits bits that mean "drop".
int64_t dropped_of(double probability) {
  return std::llround(std::ldexp(probability, kUsedBits));
}

/// The output function of splitmix64.
uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * kFirstFactor;
  x = (x ^ (x >> 27)) * kSecondFactor;
  return x ^ (x >> 31);
}

/// The CPU's version: one pass, threaded over samples.
at::Tensor counter_mask_by_loop(const at::Tensor& x, double probability, uint64_t stream,
                                const Context& context) {
  const at::Tensor mask = at::empty(x.sizes(), x.options());
  const int64_t step =
      context.step_on_device == nullptr ? context.step : context.step_on_device->item<int64_t>();
  const uint64_t of_step = stream + static_cast<uint64_t>(step) * kPerStep;
  const auto dropped = static_cast<uint64_t>(dropped_of(probability));
  const int64_t values = x.numel() / x.size(0);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "counter_mask", [&] {
    const auto kept = static_cast<scalar_t>(1 / (1 - probability));
    auto* const written = mask.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, x.size(0), 1, [&](int64_t begin, int64_t end) {
      for (int64_t sample = begin; sample < end; ++sample) {
        const uint64_t of_sample =
            mixed(static_cast<uint64_t>(context.first_sample + sample) * kPerSample + of_step);
        scalar_t* const row = written + sample * values;
        for (int64_t i = 0; i < values; ++i) {
          const uint64_t bits = mixed(static_cast<uint64_t>(i) * kPerValue + of_sample);
          row[i] = (bits >> (64 - kUsedBits)) >= dropped ? kept : scalar_t(0);
        }
      }
    });
  });
  return mask;
}

/// `value` as LibTorch's integers, which are signed and wrap around.
at::Scalar wrapped(uint64_t value) {
  return {std::bit_cast<int64_t>(value)};
}

/// A logical shift. LibTorch's shift is arithmetic, so the sign bits are cleared.
at::Tensor shifted_right(const at::Tensor& x, int bits) {
  return at::bitwise_right_shift(x, bits).bitwise_and_(wrapped(~uint64_t{0} >> bits));
}

/// mixed(), in place, on all elements.
void mix(const at::Tensor& x) {
  x.bitwise_xor_(shifted_right(x, 30)).mul_(wrapped(kFirstFactor));
  x.bitwise_xor_(shifted_right(x, 27)).mul_(wrapped(kSecondFactor));
  x.bitwise_xor_(shifted_right(x, 31));
}

}  // namespace

Dropout::Dropout(std::string name, double probability) : name_(std::move(name)), probability_(probability) {}

at::Tensor Dropout::operator()(const at::Tensor& x, const Context& context) const {
  if (!context.training || !context.dropout) return x;
  const at::Tensor mask =
      counter_mask(x, probability_, replica::stream_seed(context.seed, name_ + ".mask"), context);
  if (context.cost != nullptr) context.cost->keep(mask);
  return x * mask;
}

at::Tensor counter_mask(const at::Tensor& x, double probability, uint64_t stream, const Context& context) {
  return x.is_cpu() ? counter_mask_by_loop(x, probability, stream, context)
                    : counter_mask_by_operations(x, probability, stream, context);
}

at::Tensor counter_mask_by_operations(const at::Tensor& x, double probability, uint64_t stream,
                                      const Context& context) {
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
  return shifted_right(bits, 64 - kUsedBits)
      .ge(dropped_of(probability))
      .to(x.scalar_type())
      .mul_(1 / (1 - probability))
      .view(x.sizes());
}

}  // namespace lockstep::kernels
