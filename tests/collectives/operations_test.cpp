#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/collectives/record.h"

namespace lockstep::collectives {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no ConfigError";
  return "";
}

TEST(OperationsTest, bus_bandwidth_has_the_factors_of_nccl_tests) {
  const auto factor = [](const char* name, int ranks) { return bus_factor(operations().get(name), ranks); };
  EXPECT_DOUBLE_EQ(factor("all_reduce", 4), 1.5);
  EXPECT_DOUBLE_EQ(factor("reduce_scatter", 4), 0.75);
  EXPECT_DOUBLE_EQ(factor("all_gather", 2), 0.5);
  EXPECT_DOUBLE_EQ(factor("all_to_all", 8), 0.875);
  for (const char* name : {"broadcast", "reduce", "send_recv"}) EXPECT_EQ(factor(name, 8), 1) << name;
  EXPECT_EQ(factor("all_reduce", 1), 0);
}

TEST(OperationsTest, sizes_are_single_ones_and_doublings) {
  EXPECT_THAT(parse_sizes("8B..64B"), ElementsAre(8, 16, 32, 64));
  EXPECT_THAT(parse_sizes("1KiB..5KiB"), ElementsAre(1024, 2048, 4096));
  EXPECT_THAT(parse_sizes("25MiB"), ElementsAre(25 * kMiB));
  EXPECT_THAT(parse_sizes("2"), ElementsAre(2 * kMiB));
  EXPECT_EQ(parse_sizes("8B..1GiB").size(), 28U);
  for (const char* text : {"", "0", "-1", "8..", "..8", "x", "1TiB", "0.1B", "100GiB"})
    EXPECT_THAT(refusal_of([&] { parse_sizes(text); }), HasSubstr("--sizes takes sizes from 1B")) << text;
  EXPECT_THAT(refusal_of([] { parse_sizes("4MiB..1MiB"); }), HasSubstr("ends below its beginning"));
}

TEST(OperationsTest, types_have_the_names_that_results_have) {
  EXPECT_EQ(dtype_named("bf16"), comm::DType::kBFloat16);
  EXPECT_EQ(dtype_named("int64"), comm::DType::kInt64);
  EXPECT_THAT(refusal_of([] { dtype_named("float"); }), HasSubstr("fp32, fp64"));
}

TEST(OperationsTest, buckets_are_filled_from_the_last_parameter_on) {
  // In fp32: 4 MiB, 2 MiB, 1 KiB; the first bucket is full at 1 MiB, the others at the cap.
  EXPECT_THAT(bucket_sizes({kMiB, kMiB / 2, 256}, 3 * kMiB), ElementsAre(2 * kMiB + 1024, 4 * kMiB));
  EXPECT_THAT(bucket_sizes({10, 20}, kMiB), ElementsAre(120));
  EXPECT_TRUE(bucket_sizes({}, kMiB).empty());
}

}  // namespace
}  // namespace lockstep::collectives
