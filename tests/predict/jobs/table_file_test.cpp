#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/collectives/record.h"
#include "lockstep/predict/jobs/collective_table.h"

#include "scratch_folder.h"

namespace lockstep::predict {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

/// Of all texts of a test.
std::string notes;

std::vector<CollectivePoint> read(const std::string& text) {
  const test::ScratchFolder folder;
  const std::filesystem::path path = folder.path("collectives.txt");
  write_file_atomically(path, text);
  return read_collectives(path, "gloo", [](const std::string& note) { notes += note + "\n"; });
}

std::string refusal_of(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    return error.what() + (" | " + error.advice());
  }
  return "accepted";
}

TEST(TableFileTest, a_list_in_json_is_read_alone_or_by_its_key) {
  const std::string list =
      R"([{"ranks": 4, "collective": "all_reduce", "bytes": 1024, "time_s": 2e-5},
          {"ranks": 4, "collective": "send_recv", "bytes": 1024, "time_s": 2e-5}])";
  for (const std::string& text : {list, R"({"collectives": )" + list + "}"}) {
    const auto points = read(text);
    ASSERT_THAT(points, SizeIs(1));
    EXPECT_EQ(points[0].ranks, 4);
    EXPECT_EQ(points[0].bytes, 1024);
    EXPECT_EQ(points[0].time_s, 2e-5);
  }
}

TEST(TableFileTest, a_comma_separated_table_is_read) {
  const auto points = read(
      "ranks,collective,bytes,time_s\n"
      "4,all_reduce,1024,2e-5\n"
      "4,send_recv,1024,2e-5\n");
  ASSERT_THAT(points, SizeIs(1));
  EXPECT_EQ(points[0].ranks, 4);
  EXPECT_EQ(points[0].time_s, 2e-5);
  const auto published = read(
      "table,operation,bytes,out_of_place_us,setup\n"
      "a,all_reduce float sum,64,38.75,\"16 ranks, 2 nodes\"\n");
  ASSERT_THAT(published, SizeIs(1));
  EXPECT_EQ(published[0].ranks, 16);
  EXPECT_DOUBLE_EQ(published[0].time_s, 38.75e-6);
  EXPECT_THAT(refusal_of("collective,bytes,time_s\nall_reduce,8,1\n"),
              HasSubstr("line 2: neither ranks nor setup says how many ranks took part"));
  EXPECT_THAT(refusal_of("ranks,bytes,time_s\n4,8,1\n"),
              HasSubstr("line 1: there is no column collective or operation"));
  EXPECT_THAT(refusal_of("ranks,collective,bytes,time_s\n4,all_reduce,8,soon\n"),
              HasSubstr("line 2: time_s takes a number above 0, not 'soon'"));
}

TEST(TableFileTest, what_nccl_tests_prints_is_read) {
  const auto points = read(
      "# nThread 1 nGpus 2 minBytes 8 maxBytes 16\n# Using devices\n"
      "#  Rank  0 Group  0 Pid 1 on host device  0 [0x0f] H200\n"
      "#  Rank  1 Group  0 Pid 1 on host device  1 [0x10] H200\n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
      "           8             2     float     sum      -1    21.07    0.00    0.00      0    20.98    "
      "0.00    0.00      0\n"
      "    33554432       8388608     float     sum      -1    507.5   66.12   66.12      0    504.2   "
      "66.55   66.55      0\n"
      "# Out of bounds values : 0 OK\n");
  ASSERT_THAT(points, SizeIs(2));
  EXPECT_EQ(points[1].ranks, 2);
  EXPECT_EQ(points[1].bytes, 33554432);
  EXPECT_NEAR(points[1].time_s, 507.5e-6, 1e-12);
}

TEST(TableFileTest, wrong_results_are_left_out) {
  notes.clear();
  const std::string text =
      "# size  count  type  redop  root  time  algbw  busbw  #wrong\n"
      "1048576  262144  float  sum  -1  100.0  10.49  18.35  0\n"
      "2097152  524288  float  sum  -1  6142.0  0.34  0.60  18134\n";
  EXPECT_THAT(read(text), SizeIs(1));
  EXPECT_THAT(notes, HasSubstr("1 row with wrong results left out"));
  collectives::Record record;
  for (const int64_t wrong : {0, 5})
    record.rows.push_back({.collective = "all_reduce",
                           .backend = "gloo",
                           .ranks = 2,
                           .bytes = 4096 + wrong,
                           .median_s = 3e-5,
                           .wrong = wrong});
  EXPECT_THAT(read(collectives::to_json(record)), SizeIs(1));
}

TEST(TableFileTest, a_text_of_other_collectives_names_what_it_has_and_has_not) {
  const std::string text =
      "# size  count  type  redop  root  time  algbw  busbw  #wrong\n"
      "1048576  32768  float  none  -1  100.0  10.49  9.18  0\n";
  EXPECT_THAT(refusal_of("./alltoall_perf\n" + text),
              HasSubstr("has no all_reduce of two ranks or more; it has all_to_all of 8 ranks"));
  // Costs that follow from others say so.
  notes.clear();
  EXPECT_THAT(read("./all_gather_perf\n" + text), SizeIs(1));
  EXPECT_THAT(notes, HasSubstr("has no all_reduce: its costs follow from all_gather of 8 ranks"));
  // A tag is no list of JSON.
  EXPECT_THAT(read("[1,0]<stdout>:./all_gather_perf\n[1,0]<stdout>:" + text.substr(0, text.find('\n') + 1) +
                   "[1,0]<stdout>:" + text.substr(text.find('\n') + 1)),
              SizeIs(1));
  // Its bandwidths cannot be those of the usual all_reduce.
  EXPECT_THAT(refusal_of(text), HasSubstr("does not say which collective it is"));
}

TEST(TableFileTest, a_file_of_lockstep_collectives_is_read) {
  collectives::Record record;
  const auto add = [&](const std::string& backend, const std::string& place, double median_s) -> auto& {
    return record.rows.emplace_back(collectives::Row{.collective = "all_reduce",
                                                     .backend = backend,
                                                     .ranks = 2,
                                                     .bytes = 4096,
                                                     .place = place,
                                                     .median_s = median_s});
  };
  add("gloo", collectives::kInPlace, 3e-5);
  add("gloo", collectives::kOutOfPlace, 2e-5);
  add("gloo", collectives::kOutOfPlace, 9e-5).computing = true;
  add("gloo", collectives::kOutOfPlace, 8e-5).at_a_time = 2;
  add("mpi", collectives::kOutOfPlace, 1e-5);
  add("gloo", collectives::kInPlace, 1e-4).collective = "all_to_all";
  const auto points = read(collectives::to_json(record));
  ASSERT_THAT(points, SizeIs(1));
  EXPECT_EQ(points[0].ranks, 2);
  EXPECT_EQ(points[0].bytes, 4096);
  EXPECT_EQ(points[0].time_s, 2e-5);

  for (collectives::Row& row : record.rows) {
    if (row.backend == "gloo") row.backend = "thread";
  }
  EXPECT_THAT(refusal_of(collectives::to_json(record)),
              HasSubstr("over mpi, thread, and the job ran over gloo"));
  std::erase_if(record.rows, [](const collectives::Row& row) { return row.backend == "thread"; });
  EXPECT_THAT(read(collectives::to_json(record)), SizeIs(1));
}

TEST(TableFileTest, a_wrong_table_is_refused_in_a_sentence) {
  EXPECT_THAT(refusal_of("ranks bytes\n2 1024\n"),
              HasSubstr("has no times of collectives of two ranks or more"));
  EXPECT_THAT(refusal_of(R"([{"ranks": 4, "collective": "all_reduce", "bytes": 8}])"), HasSubstr("time_s"));
  EXPECT_THAT(refusal_of(R"([{"ranks": 4, "collective": "all_reduce", "bytes": 8, "time_s": -1}])"),
              HasSubstr("which is no time"));
  EXPECT_THAT(refusal_of(R"([{"ranks": 4, "collective": "all_reduce", "bytes": 8, "time_s": null}])"),
              HasSubstr("time_s"));
  EXPECT_THAT(refusal_of("{\"lockstep\": {}}"), HasSubstr("collectives"));
  EXPECT_THAT(refusal_of("# OSU MPI Allreduce Latency Test v7.3\n# Size  Avg Latency(us)\n8  1.5\n"),
              AllOf(HasSubstr("how many ranks took part"), HasSubstr("with --import and --ranks")));
}

}  // namespace
}  // namespace lockstep::predict
