#include "lockstep/base/units.h"

#include <limits>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(UnitsTest, counts_have_separators_and_a_plural) {
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(10000, "rank"), "10,000 ranks");
  EXPECT_EQ(count_text(-1234567), "-1,234,567");
}

TEST(UnitsTest, bytes_are_binary_with_one_decimal) {
  EXPECT_EQ(format_bytes(812), "812 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(25 * kMiB), "25.0 MiB");
  EXPECT_EQ(format_bytes(kGiB - 1), "1.0 GiB");
}

TEST(UnitsTest, durations_take_the_unit_that_reads_best) {
  EXPECT_EQ(format_duration(0), "0 s");
  EXPECT_EQ(format_duration(12.3e-6), "12.3 us");
  EXPECT_EQ(format_duration(999.99e-6), "1.0 ms");
  EXPECT_EQ(format_duration(0.0456), "45.6 ms");
  EXPECT_EQ(format_duration(0.99999), "1.00 s");
  EXPECT_EQ(format_duration(1.234), "1.23 s");
  EXPECT_EQ(format_duration(12), "12 s");
  EXPECT_EQ(format_duration(200), "3 min 20 s");
  EXPECT_EQ(format_duration(3720), "1 h 02 min");
}

TEST(UnitsTest, numbers_keep_their_whole_digits_and_have_no_exponent) {
  EXPECT_EQ(format_number(1218.4, 3), "1218");
  EXPECT_EQ(format_number(281800, 4), "281800");
  EXPECT_EQ(format_number(12.249, 3), "12.2");
  EXPECT_EQ(format_number(0.12249, 3), "0.122");
  EXPECT_EQ(format_number(2, 3), "2");
  EXPECT_EQ(format_number(8.72e-5, 3), "<0.001");
  EXPECT_EQ(format_number(-8.72e-5, 3), ">-0.001");
  EXPECT_EQ(format_number(8.72e-5, 4, 1e-7), "0.0000872");
  EXPECT_EQ(format_number(8.72e-9, 4, 1e-7), "<0.0000001");
  EXPECT_EQ(format_number(0, 3), "0");
  EXPECT_EQ(format_number(std::numeric_limits<double>::infinity(), 3), "-");
}

}  // namespace
}  // namespace lockstep
