#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/collectives/record.h"

#include "cli/in_process.h"
#include "golden/golden.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> collectives_of(const std::vector<std::string>& flags) {
  std::vector<std::string> words{"lockstep", "collectives", "--sizes", "8B,64KiB",  "--iterations",
                                 "12",       "--warmup",    "1",       "--threads", "1"};
  words.insert(words.end(), flags.begin(), flags.end());
  return words;
}

/// A record of a few rows that do not change.
collectives::Record golden_record() {
  collectives::Record record{.lockstep_version = "0.1.0", .host = "node1", .command = "lockstep collectives"};
  record.links.push_back(
      {.backend = "gloo", .ranks = 2, .kind = "sockets", .gb_per_s = 3, .latency_s = 2e-5});
  record.links.push_back({.backend = "mpi", .ranks = 2, .kind = "memory", .gb_per_s = 6});
  for (const char* backend : {"gloo", "mpi"}) {
    for (const bool computing : {false, true}) {
      for (int64_t bytes = 4096; bytes <= 1 << 24; bytes *= 64) {
        collectives::Row row{.collective = "all_reduce",
                             .backend = backend,
                             .ranks = 2,
                             .bytes = bytes,
                             .count = bytes / 4,
                             .op = "sum",
                             .computing = computing,
                             .wrong = 0};
        const double base_s =
            (computing ? 1.5 : 1) * (backend[0] == 'g' ? 5e-5 : 1e-5) + double(bytes) * 5e-10;
        // Mostly one level, and at the smallest size two.
        for (int i = 0; i < 100; ++i)
          row.iteration_s.push_back(base_s * (1 + 0.001 * (i % 10)) * (bytes == 4096 && i % 4 == 0 ? 3 : 1));
        if (computing) row.phi_c = 0.125;
        record.rows.push_back(std::move(row));
      }
    }
  }
  collectives::summarize(record);
  return record;
}

/// The golden record's file, written by LOCKSTEP_UPDATE_GOLDEN.
const std::string kGolden = LOCKSTEP_GOLDEN "/collectives.json";

TEST(CollectivesCommandTest, threads_and_processes_are_measured_at_1_2_and_3_ranks) {
  const test::ScratchFolder folder;
  const std::string json = folder.path("links.json");
  const test::Finished finished =
      test::run(collectives_of({"--backend", "thread,gloo", "--ranks", "1,2,3", "--collective",
                                "all_reduce,all_gather,send_recv", "--json", json}));
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  EXPECT_THAT(
      finished.output,
      AllOf(HasSubstr("all_reduce over thread, 1 rank, fp32"), HasSubstr("all_gather over gloo, 3 ranks"),
            HasSubstr("Links: thread at 2 ranks"), HasSubstr("sockets between the ranks give")));
  EXPECT_THAT(finished.error,
              AllOf(HasSubstr("all_reduce over gloo, 2 ranks, fp32 ..."), Not(HasSubstr("warning"))));
  const collectives::Record record = collectives::from_json(read_file(json), json);
  // all_reduce in place, all_gather both ways, send_recv from two ranks on; two sizes, two backends.
  EXPECT_EQ(record.rows.size(), 2U * 2 * (3 * 3 + 2));
  EXPECT_EQ(record.links.size(), 4U);
  for (const collectives::Row& row : record.rows) {
    EXPECT_EQ(row.wrong, 0) << row.series();
    EXPECT_EQ(row.iteration_s.size(), 12U);
    EXPECT_EQ(row.link_share.has_value(), row.ranks > 1) << row.series();
  }
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"lockstep", "diff", json, json},
        {"lockstep", "show", json},
        {"lockstep", "report", json, "-o", folder.path("links.html")},
        {"lockstep", "plot", json, "--chart", "transfer_time", "-o", folder.path("time.svg")}}) {
    const test::Finished next = test::run_here(command);
    EXPECT_EQ(next.exit_code, 0) << command[1] << ": " << next.error;
  }
}

TEST(CollectivesCommandTest, ranks_of_mpirun_and_a_busy_machine) {
  const test::Finished finished =
      test::run(collectives_of({"--backend", "mpi", "--ranks", "2", "--while", "computing", "--at-a-time",
                                "2", "--json", "-", "--quiet"}));
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  EXPECT_EQ(finished.error, "");
  const collectives::Record record = collectives::from_json(finished.output, "stdout");
  ASSERT_EQ(record.rows.size(), 4U);
  EXPECT_TRUE(record.rows[3].computing);
  EXPECT_TRUE(record.rows[3].phi_n);
  EXPECT_EQ(record.rows[3].at_a_time, 2);
}

TEST(CollectivesCommandTest, a_plan_has_every_size_and_the_buckets_of_a_network) {
  const test::Finished plan = test::run_here({"lockstep", "collectives", "--sizes", "8B..32B,model:resnet50",
                                              "--ranks", "2", "--collective", "all_reduce", "--dry-run"});
  EXPECT_EQ(plan.exit_code, 0) << plan.error;
  EXPECT_EQ(
      plan.output,
      "all_reduce over gloo, 2 ranks, fp32: 8 B 16 B 32 B 7.8 MiB 9.3 MiB 25.0 MiB 25.3 MiB 30.0 MiB\n");
}

TEST(CollectivesCommandTest, tables_charts_and_differences_look_as_they_did) {
  const std::string text = collectives::to_json(golden_record());
  if (const char* update = std::getenv("LOCKSTEP_UPDATE_GOLDEN"); update != nullptr)
    write_file_atomically(kGolden, text);
  EXPECT_EQ(read_file(kGolden), text);
  const auto printed = [](const std::vector<std::string>& command) {
    const test::Finished finished = test::run_here(command);
    EXPECT_EQ(finished.exit_code, 0) << finished.error;
    return finished.output;
  };
  testing_golden::expect_golden("collectives.txt", printed({"lockstep", "show", kGolden}));
  testing_golden::expect_golden("plots/bandwidth.svg",
                                printed({"lockstep", "plot", kGolden, "--chart", "bandwidth", "-o", "-"}));
  collectives::Record later = golden_record();
  std::erase_if(later.rows, [](const collectives::Row& row) { return row.computing; });
  for (collectives::Row& row : later.rows) {
    for (double& time_s : row.iteration_s) time_s *= row.bytes == 4096 ? 1 : 1.25;
  }
  collectives::summarize(later);
  const test::ScratchFolder folder;
  write_file_atomically(folder.path("later.json"), collectives::to_json(later));
  testing_golden::expect_golden("collectives_diff.txt",
                                printed({"lockstep", "diff", kGolden, folder.path("later.json")}));
  EXPECT_THAT(printed({"lockstep", "report", kGolden, "-o", "-"}),
              AllOf(HasSubstr("How fast the ranks communicate"), HasSubstr("data-chart=\"bandwidth\""),
                    HasSubstr("data-chart=\"transfer_time\""), HasSubstr("node1")));
}

TEST(CollectivesCommandTest, an_imported_text_is_a_table_like_any_other) {
  const test::ScratchFolder folder;
  const std::string text = folder.path("all_reduce.txt"), json = folder.path("nccl.json");
  write_file_atomically(text, "  1024  256  float  sum  -1  20.0  0.05  0.08  0  21.0  0.05  0.08  0\n");
  const test::Finished imported =
      test::run_here({"lockstep", "collectives", "--import", text, "--ranks", "8", "--json", json});
  EXPECT_EQ(imported.exit_code, 0) << imported.error;
  EXPECT_THAT(imported.output,
              AllOf(HasSubstr("all_reduce over nccl-tests, 8 ranks, fp32"), HasSubstr("0.0896")));
  EXPECT_EQ(test::run_here({"lockstep", "diff", json, json}).exit_code, 0);
  EXPECT_THAT(test::run_here({"lockstep", "diff", json, json, "--by", "p99"}).error,
              HasSubstr("--by has no effect on tables of collectives"));
  EXPECT_THAT(test::run_here({"lockstep", "show", json, "--style", "theano"}).error,
              HasSubstr("--style has no effect on a file of collectives"));
  const test::Finished unknown = test::run_here({"lockstep", "collectives", "--import", text});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.error, HasSubstr("Give their number with --ranks"));
}

TEST(CollectivesCommandTest, an_imported_table_says_what_is_wrong_and_whether_its_rates_are_good) {
  const test::ScratchFolder folder;
  const std::string
      text = folder.path("a.txt"),
      json = folder.path("a.json"),
      head = "# size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n";
  write_file_atomically(text,
                        head +
                            "1073741824 268435456 float sum -1 7989 134.4 235.2 0 7989 134.4 235.2 0\n"
                            "2147483648 536870912 float sum -1 1000 2147 3758 18134 15978 134.4 235.2 0\n");
  const test::Finished wrong = test::run_here({"lockstep", "collectives", "--import", text, "--json", json});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.output,
              AllOf(HasSubstr("8 ranks, fp32, in place"),
                    HasSubstr("out-of-place results are wrong at 2.0 GiB (18,134 elements)"),
                    HasSubstr("Peak bus bandwidth: 235 GB/s, all_reduce of 8 ranks at 1.0 GiB. Typical are"),
                    HasSubstr("230 over NVLink of A100"), HasSubstr("370 over NVLink of H100"),
                    Not(HasSubstr("3758"))));
  // The importing machine has not measured it.
  EXPECT_EQ(collectives::from_json(read_file(json), json).host, "");
  write_file_atomically(text,
                        head + "10737418240 2684354560 float sum -1 90330 118.87 208.02 0 N/A N/A N/A N/A\n");
  EXPECT_EQ(
      test::run_here({"lockstep", "collectives", "--import", text, "--json", json, "--force"}).exit_code, 0);
  EXPECT_THAT(test::run_here({"lockstep", "plot", json, "--chart", "bandwidth", "-o", "-"}).output,
              AllOf(HasSubstr("GiB"), Not(HasSubstr("10737418240 B"))));
}

}  // namespace
}  // namespace lockstep
