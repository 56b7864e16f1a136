#include "lockstep/base/half_float.h"

#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

bool is_nan16(uint16_t bits, uint16_t exponent_mask) {
  return (bits & exponent_mask) == exponent_mask && (bits & 0x7fff) != exponent_mask;
}

TEST(HalfFloatTest, every_float16_survives_the_way_to_float_and_back) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto half = uint16_t(bits);
    const uint16_t back = float_to_float16(float16_to_float(half));
    if (is_nan16(half, 0x7c00)) {
      ASSERT_EQ(back, half | 0x200) << "a NaN becomes quiet and keeps the rest";
    } else {
      ASSERT_EQ(back, half);
    }
  }
}

TEST(HalfFloatTest, every_bfloat16_survives_the_way_to_float_and_back) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto half = uint16_t(bits);
    const uint16_t back = float_to_bfloat16(bfloat16_to_float(half));
    ASSERT_EQ(back, is_nan16(half, 0x7f80) ? half | 0x40 : half);
  }
}

/// The nearer of the two neighbours, the even one when both are as near.
uint16_t nearest_even(double value, float (*widen)(uint16_t)) {
  uint16_t below = 0;
  for (int bit = 14; bit >= 0; --bit) {
    const auto candidate = uint16_t(below | (1U << bit));
    const double wide = widen(candidate);
    if (!std::isnan(wide) && wide <= value) below = candidate;
  }
  // The number after the largest is infinite, and rounding goes as if it were one step further.
  const double low = widen(below);
  double high = widen(uint16_t(below + 1));
  if (std::isinf(high)) high = low + (low - double(widen(uint16_t(below - 1))));
  if (std::isinf(low)) return below;
  if (value - low < high - value) return below;
  if (value - low > high - value) return uint16_t(below + 1);
  return below % 2 == 0 ? below : uint16_t(below + 1);
}

TEST(HalfFloatTest, floats_round_to_the_nearest_even) {
  // A spread over all exponents, and around the halves of every kind.
  for (uint32_t bits = 0; bits < 0x7f800000U; bits += 7919) {
    for (const uint32_t tail : {0U, 0x0fffU, 0x1000U, 0x1001U, 0x7fffU, 0x8000U, 0x8001U}) {
      const float value = std::bit_cast<float>((bits & ~0xffffU) | ((bits & 0xe000U) ^ tail));
      if (!std::isfinite(value)) continue;
      ASSERT_EQ(float_to_float16(value), nearest_even(value, float16_to_float)) << value;
      ASSERT_EQ(float_to_bfloat16(value), nearest_even(value, bfloat16_to_float)) << value;
      ASSERT_EQ(float_to_float16(-value), float_to_float16(value) | 0x8000);
    }
  }
}

TEST(HalfFloatTest, the_ends_of_the_range_are_right) {
  EXPECT_EQ(float_to_float16(65504.F), 0x7bff);
  EXPECT_EQ(float_to_float16(65519.996F), 0x7bff);
  EXPECT_EQ(float_to_float16(65520.F), 0x7c00);
  EXPECT_EQ(float_to_float16(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(float_to_float16(0x1p-24F), 0x0001);
  EXPECT_EQ(float_to_float16(0x1p-25F), 0x0000) << "half of the smallest is a tie, and 0 is even";
  EXPECT_EQ(float_to_float16(0x1.8p-25F), 0x0001);
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(float_to_float16(-0.F), 0x8000);
}

}  // namespace
}  // namespace lockstep
