#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/record.h"

namespace lockstep::collectives {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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

/// A test of nccl-tests on some devices.
std::string test_of(int ranks, const std::string& rows, const std::string& tag = "") {
  std::string text = tag + "# nThread 1 nGpus 1 minBytes 8 maxBytes 1048576\n" + tag + "# Using devices\n";
  for (int rank = 0; rank < ranks; ++rank)
    text +=
        tag + "#  Rank  " + std::to_string(rank) + " Group  0 Pid 100 on hosta device  0 [0x00] NVIDIA GPU\n";
  text += tag + "#                      out-of-place                       in-place\n";
  text += tag + "# size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n";
  std::istringstream lines(rows);
  for (std::string line; std::getline(lines, line);) text += tag + line + "\n";
  return text;
}

/// Rows of 1 MiB and 2 MiB of an operation at 8 ranks.
constexpr const char* kAllReduceOf8 =
    "  1048576  262144  float  sum  -1  100.0  10.49  18.35  0  100.0  10.49  18.35  0\n"
    "  2097152  524288  float  sum  -1  150.0  13.98  24.47  0  150.0  13.98  24.47  0\n";
constexpr const char* kAllGatherOf8 =
    "  1048576  32768  float  none  -1  100.0  10.49  9.18  0  100.0  10.49  9.18  0\n";
constexpr const char* kReduce =
    "  1048576  262144  float  sum  0  100.0  10.49  10.49  0  100.0  10.49  10.49  0\n";

std::vector<Row> rows_of(const std::string& text, const std::string& name, const ImportHints& hints) {
  return import_text(text, name, hints).rows;
}

std::string refusal_of(const std::string& text, const std::string& name, const ImportHints& hints = {}) {
  try {
    import_text(text, name, hints);
  } catch (const Error& error) {
    return std::string(error.what()) + " | " + error.advice();
  }
  ADD_FAILURE() << "no Error";
  return "";
}

TEST(ImportCollectivesTest, rows_of_nccl_tests_are_out_of_place_and_in_place) {
  const std::vector<Row> rows = rows_of(kNcclTests, "out.txt", {});
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
      rows_of("  1024  256  half  sum  20.0  0.05  0.04  N/A  21.0  0.05  0.04  N/A\n", "reduce_scatter.log",
              {.ranks = 4});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].series(), "reduce_scatter over nccl-tests, 4 ranks, fp16");
  EXPECT_DOUBLE_EQ(rows[1].median_s, 21e-6);
  EXPECT_FALSE(rows[1].wrong);
}

TEST(ImportCollectivesTest, rows_with_neither_a_reduction_nor_a_root_are_read) {
  const std::vector<Row> rows =
      rows_of("  67108864  8388608  float  350.0  191.74  95.87  0e+00  348.0  192.84  96.42  0e+00\n",
              "all_gather.log", {.ranks = 2});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].series(), "all_gather over nccl-tests, 2 ranks, fp32, out of place");
  EXPECT_EQ(rows[0].op, "none");
  EXPECT_DOUBLE_EQ(rows[0].median_s, 350e-6);
  EXPECT_NEAR(rows[0].algorithm_gb_per_s, 191.74, 0.01);
  EXPECT_DOUBLE_EQ(rows[1].median_s, 348e-6);
  // A broadcast has a root and no reduction.
  EXPECT_EQ(rows_of("  8  2  float  0  20.0  0.00  0.00  0e+00  21.0  0.00  0.00  0e+00\n", "broadcast.log",
                    {.ranks = 2})
                .front()
                .op,
            "none");
}

TEST(ImportCollectivesTest, a_size_of_osu_that_is_one_rank_s_becomes_that_of_all) {
  const std::vector<Row> rows = rows_of(kOsu, "out.txt", {.ranks = 4});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].series(), "all_gather over osu, 4 ranks, uint8, out of place");
  EXPECT_EQ(rows[1].bytes, 16384);
  EXPECT_EQ(rows[1].count, 4096);
  EXPECT_DOUBLE_EQ(rows[1].median_s, 10e-6);
  const std::vector<Row> messages =
      rows_of("# OSU MPI Bandwidth Test v7.3\n# Size      Bandwidth (MB/s)\n1000000  2000.0\n", "bw.txt", {});
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].collective, "send_recv");
  EXPECT_EQ(messages[0].ranks, 2);
  EXPECT_DOUBLE_EQ(messages[0].median_s, 0.5e-3);
}

TEST(ImportCollectivesTest, tags_before_lines_are_no_words_of_a_row) {
  for (const char* tag :
       {"[1,0]<stdout>:", "[prterun-a-1@1,0]<stdout>: ", "0: ", "  0: ", "(name, rank=0, pid=1) ",
        "pod-0: ", "[pod/x/y] ", "pod-0 main ", "worker-0  | ", "2024-05-01T12:00:00.5Z ",
        "2024-05-01 12:00:00,5 - INFO - ", "May  1 12:00:00 host prog[12]: ", "\x1b[36m(pid=7)\x1b[0m ",
        "(head, rank=0) [1,0]<stdout>:", "\t"}) {
    const std::vector<Row> rows = rows_of(test_of(8, kAllReduceOf8, tag), "out.txt", {});
    ASSERT_EQ(rows.size(), 4U) << tag;
    EXPECT_EQ(rows[1].series(), "all_reduce over nccl-tests, 8 ranks, fp32") << tag;
    EXPECT_EQ(rows[3].bytes, 2097152) << tag;
  }
  // OSU writes sizes at the very beginning of a line.
  const std::vector<Row> rows = rows_of(
      "[1,0]<stdout>:# OSU MPI Allreduce Latency Test v7.3\r\n[1,0]<stdout>:# Size  Avg Latency(us)\r\n"
      "[1,0]<stdout>:4  1.50\r\n",
      "out.txt", {.ranks = 4});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].bytes, 4);
}

TEST(ImportCollectivesTest, clocks_may_go_on_from_line_to_line) {
  std::istringstream lines(test_of(8, kAllReduceOf8));
  std::string text;
  int second = 10;
  for (std::string line; std::getline(lines, line);)
    text += "2024-05-01T12:00:" + std::to_string(second++) + ".123Z " + line + "\n";
  EXPECT_EQ(rows_of(text, "out.txt", {}).size(), 4U);
}

TEST(ImportCollectivesTest, interleaved_lines_of_two_ranks_are_two_tables) {
  std::istringstream one(test_of(8, kAllReduceOf8, "[1,0]<stdout>:")),
      other(test_of(8, kAllGatherOf8, "[1,1]<stdout>:"));
  std::string text;
  for (std::string line; std::getline(one, line);) {
    text += line + "\n";
    if (std::getline(other, line)) text += line + "\n";
  }
  const std::vector<Row> rows = rows_of(text, "all_gather.txt", {});
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(rows[3].collective, "all_reduce");
  EXPECT_EQ(rows[4].collective, "all_gather");
}

TEST(ImportCollectivesTest, each_head_begins_a_table_with_its_devices_and_its_collective) {
  const std::string text = "$ ./all_reduce_perf -g 8\n" + test_of(8, kAllReduceOf8) +
                           "$ ./reduce_perf -g 4\n" + test_of(4, kReduce) +
                           test_of(2, "host: Test NCCL failure\n");
  const ImportedText both = import_text(text, "out.txt", {});
  ASSERT_EQ(both.rows.size(), 6U);
  EXPECT_EQ(both.rows[0].series(), "all_reduce over nccl-tests, 8 ranks, fp32, out of place");
  EXPECT_EQ(both.rows[4].series(), "reduce over nccl-tests, 4 ranks, fp32, out of place");
  EXPECT_THAT(both.notes, ElementsAre(HasSubstr("a test of 2 ranks has no row")));
  const ImportedText one = import_text(text, "out.txt", {.collective = "reduce"});
  EXPECT_EQ(one.rows.size(), 2U);
  EXPECT_THAT(one.notes,
              ElementsAre(HasSubstr("all_reduce of 8 ranks left out"), HasSubstr("2 ranks has no row")));
  // The same again is another series.
  const std::vector<Row> again =
      rows_of(test_of(8, kAllReduceOf8) + test_of(8, kAllReduceOf8), "out.txt", {});
  ASSERT_EQ(again.size(), 8U);
  EXPECT_EQ(again[4].backend, "nccl-tests (2)");
}

TEST(ImportCollectivesTest, a_row_that_is_no_whole_one_is_counted) {
  const std::string zero = "  0  0  float  sum  -1  35.2  0.00  0.00  0  35.2  0.00  0.00  0\n";
  const std::string other =
      "  4194304  1048576  float  sum  -1  0.26  10.49  18.35  0  100.0  10.49  18.35  0\n";
  for (const char* cut :
       {"  4194304  1048576  float  sum  -1  30.0  0.26  0.26  0  31.76  0.26 ", "  4194304  10", "  41943",
        "  4194304  1048576  float  sum  -1  30.0  0.26  hosta:12 NCCL WARN a b c d e"}) {
    const ImportedText read = import_text(test_of(8, kAllReduceOf8 + zero + other + zero + cut), "a.txt", {});
    EXPECT_EQ(read.rows.size(), 4U) << cut;
    ASSERT_EQ(read.notes.size(), 2U) << cut;
    EXPECT_THAT(read.notes[1], AllOf(HasSubstr("2 rows of 0 bytes"), HasSubstr("1 row cut short or damaged"),
                                     HasSubstr("1 row whose algbw is not size over time")));
  }
}

TEST(ImportCollectivesTest, columns_are_those_of_the_head) {
  // Blank reductions, a deviation instead of a count, and halves the other way round.
  const std::vector<Row> rows = rows_of(
      "#                in-place                   out-of-place\n"
      "# size  count  type  redop  time  algbw  busbw  error  time  algbw  busbw  error\n"
      "  1048576  16384  float  571.5  1.83  1.72  4e-07  0.50  2087.88  1957.39  1e+00\n",
      "alltoall.txt", {.ranks = 16});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].series(), "all_to_all over nccl-tests, 16 ranks, fp32");
  EXPECT_EQ(rows[0].wrong, 0);
  EXPECT_FALSE(rows[0].is_wrong());
  EXPECT_EQ(rows[1].place, kOutOfPlace);
  EXPECT_FALSE(rows[1].wrong);
  EXPECT_EQ(rows[1].deviation, 1);
  EXPECT_TRUE(rows[1].is_wrong());
  // Columns of newer versions.
  const std::vector<Row> newer = rows_of(
      "# size count type redop root time algbw busbw #wrong i_min i_max time algbw busbw #wrong i_min i_max "
      "timestamp\n"
      "  1048576 262144 float sum -1 100.0 10.49 18.35 1.2e+06 90.0 120.0 N/A N/A N/A N/A N/A N/A 2025-01-01 "
      "10:00:00\n",
      "all_reduce.txt", {.ranks = 8});
  ASSERT_EQ(newer.size(), 1U);
  EXPECT_EQ(newer[0].wrong, 1200000);
  // OSU's columns in full, and of operations that do not block.
  const auto latency_of = [](const std::string& columns, const std::string& row) {
    const std::vector<Row> read = rows_of(
        "# OSU MPI Allreduce Latency Test v7.3\n# Size " + columns + "\n" + row, "a.txt", {.ranks = 2});
    return read.size() == 1 ? read[0].median_s : 0;
  };
  EXPECT_DOUBLE_EQ(
      latency_of("Min Latency(us) Avg Latency(us)  Max Latency(us)  Iterations", "8 1 2 3 1000\n"), 2e-6);
  EXPECT_DOUBLE_EQ(latency_of("Overall(us)\tCompute(us)\tPure Comm.(us)\tOverlap(%)", "8\t9\t8\t4\t50\n"),
                   4e-6);
}

TEST(ImportCollectivesTest, the_ratio_of_its_bandwidths_says_what_a_text_can_be) {
  const std::string reduce = test_of(8, kReduce), all_reduce = test_of(8, kAllReduceOf8);
  EXPECT_THAT(
      refusal_of(reduce, "a.txt", {.collective = "all_reduce"}),
      HasSubstr(
          "busbw is 1 times algbw at 1.0 MiB, which is not all_reduce of 8 ranks, but reduce of 8 ranks"));
  EXPECT_THAT(
      refusal_of(all_reduce, "a.txt", {.ranks = 4}),
      HasSubstr("1.75 times algbw at 2.0 MiB, which is not a test of 4 ranks, but all_reduce of 8 ranks"));
  // A list of devices that is not whole.
  EXPECT_THAT(refusal_of(test_of(3, kAllReduceOf8), "all_reduce.txt"),
              HasSubstr("but all_reduce of 8 ranks"));
  EXPECT_EQ(rows_of(test_of(3, kAllReduceOf8), "all_reduce.txt", {.ranks = 8}).size(), 4U);
  EXPECT_THAT(refusal_of(test_of(3, kAllReduceOf8), "a.txt", {.collective = "broadcast"}),
              HasSubstr("which is not broadcast of 3 ranks"));
  // Told where only one fits, whatever the file is called.
  const ImportedText told = import_text(reduce, "all_reduce.txt", {});
  EXPECT_EQ(told.rows[0].collective, "reduce");
  EXPECT_THAT(told.notes, ElementsAre(HasSubstr("says a test of 8 ranks: read as reduce of 8 ranks")));
  const ImportedText ranks = import_text(kAllReduceOf8, "all_reduce.txt", {});
  EXPECT_EQ(ranks.rows[0].ranks, 8);
  EXPECT_THAT(
      refusal_of(test_of(8, kAllGatherOf8), "a.txt"),
      HasSubstr("which collective it is | Name it with --collective: all_gather of 8 ranks or all_to_all"));
  EXPECT_THAT(import_text(test_of(8, kAllGatherOf8), "all_gather.txt", {}).notes, testing::SizeIs(1));
  EXPECT_THAT(import_text("./all_gather_perf\n" + test_of(8, kAllGatherOf8), "a.txt", {}).notes, IsEmpty());
  // One rank sends nothing.
  const std::string alone =
      "  1048576  262144  float  sum  -1  3.53  297.04  0.00  0  3.53  297.04  0.00  0\n";
  EXPECT_EQ(rows_of(test_of(1, alone), "all_reduce.txt", {})[0].bus_gb_per_s, 0);
}

TEST(ImportCollectivesTest, what_is_missing_is_said) {
  EXPECT_THAT(refusal_of("hello\n", "a.txt"), HasSubstr("has no row of nccl-tests or of the OSU"));
  EXPECT_THAT(refusal_of(kOsu, "a.txt"),
              HasSubstr("how many ranks took part | Give their number with --ranks"));
  EXPECT_THAT(refusal_of("  1024  256  half  sum  20.0  0.05  0.04  N/A  21.0  0.05  0.04  N/A\n", "a.txt"),
              HasSubstr("which collective it is | Name it with --collective"));
}

}  // namespace
}  // namespace lockstep::collectives
