#include "lockstep/base/number_range.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr NumberRange kTimes{.most = 100, .above = true, .unit = Unit::kSeconds};
constexpr NumberRange kSizes{.most = 1024, .above = true, .unit = Unit::kMebibytes};
constexpr NumberRange kShares{.most = 1, .below = true, .unit = Unit::kShare};
constexpr NumberRange kCounts{.least = 1, .most = 5000};

TEST(NumberRangeTest, a_number_may_have_a_unit_of_its_kind) {
  EXPECT_EQ(parse_number("30", kTimes), 30);
  EXPECT_EQ(parse_number("30s", kTimes), 30);
  EXPECT_EQ(parse_number("1.5 min", kTimes), 90);
  EXPECT_EQ(parse_number("250ms", kTimes), 0.25);
  EXPECT_EQ(parse_number("5s", {.most = 6e4, .unit = Unit::kMilliseconds}), 5000);
  EXPECT_EQ(parse_number("25MB", kSizes), 25);
  EXPECT_EQ(parse_number("1GiB", kSizes), 1024);
  EXPECT_EQ(parse_number("512 kb", kSizes), 0.5);
  EXPECT_EQ(parse_number("2%", kShares), 0.02);
  EXPECT_EQ(parse_number("2.5 %", kShares), 0.025);
  EXPECT_EQ(parse_number("0.02", kShares), 0.02);
  EXPECT_EQ(parse_number("+1e-3", {.most = 1}), 0.001);
}

TEST(NumberRangeTest, other_texts_and_other_numbers_are_none) {
  for (const char* text :
       {"", " ", "x", "30x", "30MB", "0", "-1", "101", "2min", "inf", "nan", "1e400", "3 4", "0x1"})
    EXPECT_EQ(parse_number(text, kTimes), std::nullopt) << text;
  // 2 could be meant as 2 %.
  for (const char* text : {"2", "100%", "-1%", "%", "2%%"})
    EXPECT_EQ(parse_number(text, kShares), std::nullopt) << text;
  EXPECT_EQ(parse_number("30s", NumberRange{}), std::nullopt);
  EXPECT_EQ(parse_number("inf", NumberRange{}), std::nullopt);
}

TEST(NumberRangeTest, whole_numbers_are_exact) {
  EXPECT_EQ(parse_whole("1e3", kCounts), 1000);
  EXPECT_EQ(parse_whole("9223372036854775807", NumberRange{}), 9223372036854775807);
  for (const char* text : {"0", "5001", "1.5", "2147483648", "1e30", "two", "1,2"})
    EXPECT_EQ(parse_whole(text, kCounts), std::nullopt) << text;
  EXPECT_EQ(parse_whole("18446744073709551616", NumberRange{}), std::nullopt);
  EXPECT_EQ(parse_whole("-1", NumberRange{}), std::nullopt);
}

TEST(NumberRangeTest, what_is_allowed_is_said_in_words) {
  EXPECT_EQ(describe(kCounts, true), "a whole number from 1 to 5000");
  EXPECT_EQ(describe({.most = 0x1p63}, true), "a whole number from 0 to 9223372036854775807");
  EXPECT_EQ(describe({}, false), "a number of 0 or more");
  EXPECT_EQ(describe({.above = true}, false), "a number above 0");
  EXPECT_EQ(describe({.most = 1, .below = true}, false), "a number from 0 and below 1");
  EXPECT_EQ(describe(kTimes, false), "a time above 0 and up to 100 seconds (30, 30s or 5min)");
  EXPECT_EQ(describe(kSizes, false), "a size above 0 and up to 1024 MiB (25, 25MB or 1GB)");
  EXPECT_EQ(describe(kShares, false), "a share from 0 and below 1 (2% or 0.02)");
}

}  // namespace
}  // namespace lockstep
