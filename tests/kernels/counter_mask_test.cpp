#include <cmath>

#include <gtest/gtest.h>

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>

#include "lockstep/kernels/dropout.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kValues = 1000;
constexpr uint64_t kStream = 0x9123456789abcdef;

at::Tensor mask_of(int64_t samples, const Context& context, uint64_t stream = kStream) {
  return counter_mask(at::ones({samples, kValues}), 0.5, stream, context);
}

TEST(CounterMaskTest, belongs_to_the_sample_not_to_the_split) {
  const at::Tensor joint = mask_of(4, {.step = 3});
  const at::Tensor parts = at::cat({mask_of(1, {.step = 3}), mask_of(3, {.step = 3, .first_sample = 1})}, 0);
  EXPECT_TRUE(at::equal(joint, parts));
}

/// As often the same as two independent masks are.
void expect_unrelated(const at::Tensor& one, const at::Tensor& other) {
  const auto count = static_cast<double>(one.numel());
  EXPECT_NEAR(one.eq(other).sum().item<double>(), count / 2, 5 * std::sqrt(count / 4));
}

TEST(CounterMaskTest, stream_step_and_sample_have_masks_of_their_own) {
  const at::Tensor mask = mask_of(2, {});
  EXPECT_TRUE(at::equal(mask, mask_of(2, {})));
  expect_unrelated(mask, mask_of(2, {.step = 1}));
  expect_unrelated(mask, mask_of(2, {}, kStream + 1));
  expect_unrelated(mask.select(0, 0), mask.select(0, 1));
  // A step later, a sample earlier, and one value along.
  expect_unrelated(mask.select(0, 1), mask_of(1, {.step = 1}).select(0, 0));
  expect_unrelated(mask.narrow(1, 0, kValues - 1), mask.narrow(1, 1, kValues - 1));
}

TEST(CounterMaskTest, a_step_that_lies_in_memory_counts_as_one_that_was_told) {
  for (const int64_t step : {int64_t{0}, int64_t{7}, int64_t{1} << 40}) {
    const at::Tensor in_memory = at::scalar_tensor(step, at::kLong);
    EXPECT_TRUE(at::equal(mask_of(2, {.step = step}), mask_of(2, {.step = 1, .step_on_device = &in_memory})));
  }
}

TEST(CounterMaskTest, drops_as_much_as_it_is_to_and_makes_up_for_it) {
  for (const double probability : {0.2, 0.5, 0.7}) {
    const at::Tensor mask = counter_mask(at::ones({100, 10, kValues}), probability, kStream, {});
    ASSERT_EQ(mask.sizes(), at::IntArrayRef({100, 10, kValues}));
    const at::Tensor kept = mask.masked_select(mask.ne(0));
    EXPECT_TRUE(kept.eq(static_cast<float>(1 / (1 - probability))).all().item<bool>());
    const auto count = static_cast<double>(mask.numel());
    EXPECT_NEAR(static_cast<double>(kept.numel()), (1 - probability) * count,
                5 * std::sqrt(probability * (1 - probability) * count));
  }
}

TEST(CounterMaskTest, has_the_type_of_what_it_is_for) {
  EXPECT_EQ(counter_mask(at::ones({2, 3}, at::kBFloat16), 0.5, kStream, {}).scalar_type(), at::kBFloat16);
}

TEST(CounterMaskTest, is_the_same_by_the_cpus_loop_as_by_a_gpus_operations) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    for (const double probability : {0.0, 0.3, 0.5, 0.9}) {
      const at::Tensor x = at::ones({5, 3, 77}, type);
      const Context context{.step = int64_t{1} << 35, .first_sample = 1000};
      EXPECT_TRUE(at::equal(counter_mask(x, probability, kStream, context),
                            counter_mask_by_operations(x, probability, kStream, context)))
          << type << ", " << probability;
    }
  }
}

/// Fused kernels read the CPU's memory.
TEST(ContextTest, fuses_only_what_lies_in_the_memory_of_the_cpu) {
  const Context fused{.kernels = KernelChoice::kFused};
  EXPECT_TRUE(fused.fuses(at::ones({2, 3})));
  EXPECT_FALSE(fused.fuses(at::ones({2, 3}, at::kMeta)));
  EXPECT_FALSE(Context{}.fuses(at::ones({2, 3})));
}

}  // namespace
}  // namespace lockstep::kernels
