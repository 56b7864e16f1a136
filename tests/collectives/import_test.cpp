#include "lockstep/collectives/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::collectives {
namespace {

using testing::HasSubstr;

constexpr const char* kNcclTests = R"(# nccl-tests version 2.17.6 nccl-headers=22807 nccl-library=22807
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 2 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid  16254 on       node1 device  0 [0000:07:00] NVIDIA A100-SXM4-40GB
#  Rank  1 Group  0 Pid  16254 on       node1 device  1 [0000:0a:00] NVIDIA A100-SXM4-40GB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    12.50    0.00    0.00      0    11.00    0.00    0.00      0
     1048576        262144     float     sum      -1   100.00   10.49   10.49      0    99.00   10.59   10.59      3
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 5.24
)";

constexpr const char* kOsu = R"(
# OSU MPI Allgather Latency Test v7.3
# Datatype: MPI_CHAR.
# Size       Avg Latency(us)
1                       1.50
4096                   10.00
)";

std::string refusal_of(const std::string& text, const std::string& name) {
  try {
    import_text(text, name, {});
  } catch (const Error& error) {
    return std::string(error.what()) + " | " + error.advice();
  }
  ADD_FAILURE() << "no Error";
  return "";
}

TEST(ImportCollectivesTest, rows_of_nccl_tests_are_out_of_place_and_in_place) {
  const std::vector<Row> rows = import_text(kNcclTests, "out.txt", {});
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[2].series(), "all_reduce over nccl-tests, 2 ranks, fp32, out of place");
  EXPECT_EQ(rows[3].series(), "all_reduce over nccl-tests, 2 ranks, fp32");
  EXPECT_EQ(rows[2].bytes, 1048576);
  EXPECT_EQ(rows[2].count, 262144);
  EXPECT_EQ(rows[2].op, "sum");
  EXPECT_DOUBLE_EQ(rows[2].median_s, 100e-6);
  EXPECT_NEAR(rows[2].algorithm_gb_per_s, 10.49, 0.01);
  EXPECT_NEAR(rows[2].bus_gb_per_s, 10.49, 0.01);
  EXPECT_EQ(rows[2].wrong, 0);
  EXPECT_EQ(rows[3].wrong, 3);
}

TEST(ImportCollectivesTest, rows_without_a_root_and_without_checks_are_read) {
  const std::vector<Row> rows =
      import_text("  1024  256  half  sum  20.0  0.05  0.08  N/A  21.0  0.05  0.08  N/A\n",
                  "reduce_scatter.log", {.ranks = 4});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].series(), "reduce_scatter over nccl-tests, 4 ranks, fp16");
  EXPECT_DOUBLE_EQ(rows[1].median_s, 21e-6);
  EXPECT_FALSE(rows[1].wrong);
}

TEST(ImportCollectivesTest, rows_with_neither_a_reduction_nor_a_root_are_read) {
  const std::vector<Row> rows =
      import_text("  67108864  8388608  float  350.0  191.74  95.87  0e+00  348.0  192.84  96.42  0e+00\n",
                  "all_gather.log", {.ranks = 2});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].series(), "all_gather over nccl-tests, 2 ranks, fp32, out of place");
  EXPECT_EQ(rows[0].op, "none");
  EXPECT_DOUBLE_EQ(rows[0].median_s, 350e-6);
  EXPECT_NEAR(rows[0].algorithm_gb_per_s, 191.74, 0.01);
  EXPECT_DOUBLE_EQ(rows[1].median_s, 348e-6);
  // A broadcast has a root and no reduction.
  EXPECT_EQ(import_text("  8  2  float  0  20.0  0.05  0.08  0e+00  21.0  0.05  0.08  0e+00\n",
                        "broadcast.log", {.ranks = 2})
                .front()
                .op,
            "none");
}

TEST(ImportCollectivesTest, a_size_of_osu_that_is_one_rank_s_becomes_that_of_all) {
  const std::vector<Row> rows = import_text(kOsu, "out.txt", {.ranks = 4});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].series(), "all_gather over osu, 4 ranks, uint8, out of place");
  EXPECT_EQ(rows[1].bytes, 16384);
  EXPECT_EQ(rows[1].count, 4096);
  EXPECT_DOUBLE_EQ(rows[1].median_s, 10e-6);
  const std::vector<Row> messages = import_text(
      "# OSU MPI Bandwidth Test v7.3\n# Size      Bandwidth (MB/s)\n1000000  2000.0\n", "bw.txt", {});
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].collective, "send_recv");
  EXPECT_EQ(messages[0].ranks, 2);
  EXPECT_DOUBLE_EQ(messages[0].median_s, 0.5e-3);
}

TEST(ImportCollectivesTest, what_is_missing_is_said) {
  EXPECT_THAT(refusal_of("hello\n", "a.txt"), HasSubstr("has no row of nccl-tests or of the OSU"));
  EXPECT_THAT(refusal_of(kOsu, "a.txt"),
              HasSubstr("how many ranks took part | Give their number with --ranks"));
  EXPECT_THAT(refusal_of("  1024  256  half  sum  20.0  0.05  0.08  N/A  21.0  0.05  0.08  N/A\n", "a.txt"),
              HasSubstr("which collective it is | Name it with --collective"));
}

}  // namespace
}  // namespace lockstep::collectives
