#include "lockstep/comm/element_reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/half_float.h"

#include "comm/typed_values.h"

namespace lockstep::comm {
namespace {

double combined(ReduceOp op, double a, double b) {
  if (op == ReduceOp::kMin) return std::min(a, b);
  if (op == ReduceOp::kMax) return std::max(a, b);
  return a + b;
}

TEST(ElementReduceTest, combines_every_dtype_operation_and_length) {
  for (const DType dtype : kAllDTypes) {
    for (const ReduceOp op : kAllOps) {
      const ReduceFunction reduce = reduce_function(dtype, op);
      // Lengths around the widths of vector registers, so that every kind of rest occurs.
      for (size_t count = 0; count < 70; ++count) {
        const TypedValues a = TypedValues::whole_numbers(dtype, count, 1);
        const TypedValues b = TypedValues::whole_numbers(dtype, count, 2);
        TypedValues expected(dtype, count);
        for (size_t i = 0; i < count; ++i) expected.set(i, combined(op, a.get(i), b.get(i)));

        TypedValues apart(dtype, count);
        reduce(apart.data(), a.data(), b.data(), count);
        ASSERT_EQ(apart, expected) << to_string(dtype) << " x " << count;
        TypedValues into_a = a;
        reduce(into_a.data(), into_a.data(), b.data(), count);
        ASSERT_EQ(into_a, expected);
        TypedValues into_b = b;
        reduce(into_b.data(), a.data(), into_b.data(), count);
        ASSERT_EQ(into_b, expected);
      }
    }
  }
}

TEST(ElementReduceTest, half_sums_round_once_whatever_the_position) {
  // Position decides whether vector or scalar code runs: the bits must not depend on it.
  constexpr size_t kCount = 31;
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const auto widen = dtype == DType::kFloat16 ? float16_to_float : bfloat16_to_float;
    const auto narrow = dtype == DType::kFloat16 ? float_to_float16 : float_to_bfloat16;
    const ReduceFunction reduce = reduce_function(dtype, ReduceOp::kSum);
    for (uint32_t bits = 0; bits <= 0xffff; bits += 13) {
      const auto a = uint16_t(bits);
      const auto b = uint16_t(scrambled(bits, 0));
      if (std::isnan(widen(a)) || std::isnan(widen(b))) continue;
      std::vector<uint16_t> left(kCount, a);
      const std::vector<uint16_t> right(kCount, b);
      reduce(left.data(), left.data(), right.data(), kCount);
      const float sum = widen(a) + widen(b);
      if (std::isnan(sum)) continue;
      ASSERT_EQ(left, std::vector<uint16_t>(kCount, narrow(sum))) << widen(a) << " + " << widen(b);
    }
  }
}

TEST(ElementReduceTest, integers_wrap_around) {
  std::vector<uint8_t> bytes = {200};
  const std::vector<uint8_t> more = {100};
  reduce_function(DType::kUInt8, ReduceOp::kSum)(bytes.data(), bytes.data(), more.data(), 1);
  EXPECT_EQ(bytes[0], 44);
  std::vector<int64_t> large = {std::numeric_limits<int64_t>::max()};
  const std::vector<int64_t> one = {1};
  reduce_function(DType::kInt64, ReduceOp::kSum)(large.data(), large.data(), one.data(), 1);
  EXPECT_EQ(large[0], std::numeric_limits<int64_t>::min());
}

TEST(ElementReduceTest, negative_numbers_compare_as_numbers) {
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::kUInt8) continue;
    TypedValues a(dtype, 40);
    TypedValues b(dtype, 40);
    for (size_t i = 0; i < 40; ++i) {
      a.set(i, -3);
      b.set(i, 2);
    }
    TypedValues result(dtype, 40);
    reduce_function(dtype, ReduceOp::kMin)(result.data(), a.data(), b.data(), 40);
    EXPECT_EQ(result, a) << to_string(dtype);
    reduce_function(dtype, ReduceOp::kMax)(result.data(), a.data(), b.data(), 40);
    EXPECT_EQ(result, b) << to_string(dtype);
  }
}

}  // namespace
}  // namespace lockstep::comm
