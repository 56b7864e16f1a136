#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/results/tables/diff.h"

#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

/// testing::Test has a Run of its own.
using Row = Run;

RunRecord record_of(std::vector<Run> runs) {
  RunRecord record;
  record.runs = std::move(runs);
  return record;
}

Run with(Run run, void (*change)(Row& run)) {
  change(run);
  return run;
}

std::string text_of(const RowMatching& matching) {
  std::string text;
  for (const auto& [base, test] : matching.rows)
    text += base->strategy + std::to_string(base->ranks) + "=" + test->strategy +
            std::to_string(test->ranks) + " ";
  for (const Row* run : matching.only_base)
    text += "base:" + run->strategy + std::to_string(run->ranks) + " ";
  for (const Row* run : matching.only_test)
    text += "test:" + run->strategy + std::to_string(run->ranks) + " ";
  for (const auto& [name, base, test] : matching.changes) text += name + ":" + base + ">" + test + " ";
  return text;
}

TEST(RowMatchingTest, position_does_not_count) {
  const RunRecord base = record_of({plain_run("single", 1), plain_run("ddp", 2), plain_run("ddp", 4)});
  const RunRecord test = record_of({plain_run("ddp", 4), plain_run("ddp", 8), plain_run("single", 1)});
  EXPECT_EQ(text_of(match_rows(base, test)), "single1=single1 ddp4=ddp4 base:ddp2 test:ddp8 ");
}

TEST(RowMatchingTest,
     what_all_rows_of_a_file_share_and_the_other_file_has_otherwise_is_what_they_are_compared_for) {
  struct Case {
    void (*change)(Row& run);
    const char* expected;
  };
  const Case cases[] = {
      {[](Row& run) { run.bucket_mb = 1; }, "bucket:25 MiB>1 MiB "},
      {[](Row& run) { run.backend = "mpi"; }, "backend:gloo>mpi "},
      {[](Row& run) { run.precision = "bf16"; }, "precision:fp32>bf16 "},
      {[](Row& run) { run.kernels = "aten"; }, "kernels:fused>aten "},
      {[](Row& run) { run.memory_format = "contiguous"; }, "memory format:channels_last>contiguous "},
      {[](Row& run) { run.input = "host"; }, "input:device>host "},
      {[](Row& run) { run.threads_per_rank = 4; }, "threads per rank:1>4 "},
      {[](Row& run) { run.device = "cuda"; }, "device:cpu>cuda "},
      {[](Row& run) { run.cuda_graph = true; }, "CUDA graph:off>on "},
      {[](Row& run) { run.hosts = 2; }, "hosts:1>2 "},
      {[](Row& run) {
         if (run.strategy == "ddp") run.strategy = "sharded";
       },
       "strategy:ddp>sharded "},
  };
  const RunRecord base = record_of({plain_run("single", 1), plain_run("ddp", 2)});
  for (const Case& one : cases) {
    const RunRecord test =
        record_of({with(plain_run("single", 1), one.change), with(plain_run("ddp", 2), one.change)});
    const std::string strategy = test.runs[1].strategy;
    EXPECT_EQ(text_of(match_rows(base, test)), "single1=single1 ddp2=" + strategy + "2 " + one.expected);
  }
}

TEST(RowMatchingTest, settings_of_communication_alone_mean_nothing_to_rows_that_do_not_communicate) {
  const auto changed = [](Row& run) {
    run.bucket_mb = 1;
    run.backend = "mpi";
    run.memory_format = "contiguous";
  };
  const RunRecord base = record_of({plain_run("single", 1), plain_run("ddp", 2)});
  const RunRecord test =
      record_of({with(plain_run("single", 1), changed), with(plain_run("ddp", 4), changed)});
  EXPECT_EQ(text_of(match_rows(base, test)),
            "single1=single1 base:ddp2 test:ddp4 memory format:channels_last>contiguous ");
}

TEST(RowMatchingTest, a_setting_that_a_file_sweeps_keeps_its_rows_apart) {
  const auto narrow = [](Row& run) { run.bucket_mb = 1; };
  const RunRecord one = record_of({plain_run("ddp", 2)});
  const RunRecord both = record_of({with(plain_run("ddp", 2), narrow), plain_run("ddp", 2)});
  const RowMatching matching = match_rows(one, both);
  EXPECT_EQ(text_of(matching), "ddp2=ddp2 test:ddp2 ");
  EXPECT_EQ(matching.rows[0].test->bucket_mb, 25);
  EXPECT_EQ(text_of(match_rows(both, both)), "ddp2=ddp2 ddp2=ddp2 ");
}

TEST(RowMatchingTest, another_work_is_another_row) {
  const RunRecord base = record_of({plain_run("ddp", 2)});
  void (*const works[])(Row&) = {
      [](Row& run) { run.model = "resnet18"; },       [](Row& run) { run.batch_per_rank = 16; },
      [](Row& run) { run.image_size = 192; },         [](Row& run) { run.global_batch = 16; },
      [](Row& run) { run.strategy = "independent"; }, [](Row& run) { run.ranks = 3; }};
  for (size_t i = 0; i < std::size(works); ++i) {
    const RunRecord test = record_of({with(plain_run("ddp", 2), works[i])});
    EXPECT_TRUE(match_rows(base, test).rows.empty()) << i;
  }
}

TEST(RowMatchingTest, what_a_file_does_not_say_keeps_no_rows_apart) {
  const RunRecord base = record_of({plain_run("ddp", 2)});
  const RunRecord test = record_of({with(plain_run("ddp", 2), [](Row& run) {
    run.image_size = 0;
    run.threads_per_rank = 0;
    run.backend.clear();
  })});
  EXPECT_EQ(text_of(match_rows(base, test)), "ddp2=ddp2 ");
}

TEST(RowMatchingTest, no_row_is_matched_twice) {
  const RunRecord base = record_of({plain_run("ddp", 2), plain_run("ddp", 2)});
  EXPECT_EQ(text_of(match_rows(base, record_of({plain_run("ddp", 2)}))), "ddp2=ddp2 base:ddp2 ");
}

TEST(RowMatchingTest, recorded_trainings_are_the_same_by_name_or_by_their_gradients) {
  const auto recorded = [](const char* name, int64_t parameters, int batch) {
    Row run = plain_run("ddp", 2);
    run.recorded.emplace();
    run.model = name;
    run.parameters = run.largest_parameter = parameters;
    run.parameter_tensors = parameters > 0 ? 2 : 0;
    run.unit = batch > 0 ? "sample" : results::kStepUnit;
    run.batch_per_rank = std::max(1, batch);
    return record_of({run});
  };
  const auto matches = [](const RunRecord& base, const RunRecord& test, bool as_same = false) {
    return match_rows(base, test, as_same).rows.size() == 1;
  };
  EXPECT_TRUE(matches(recorded("train", 10, 8), recorded("train", 20, 8)));
  EXPECT_TRUE(matches(recorded("train", 10, 8), recorded("train", 10, 0))) << "the trace may lack shapes";
  EXPECT_TRUE(match_rows(recorded("train", 10, 8), recorded("train", 10, 0)).changes.empty());
  EXPECT_TRUE(matches(recorded(kUnnamed, 10, 8), recorded(kUnnamed, 10, 8)));
  EXPECT_TRUE(matches(recorded(kUnnamed, 10, 8), recorded("train", 10, 8)));
  const std::vector<std::pair<RunRecord, RunRecord>> open{
      {recorded("train", 10, 8), recorded("other", 10, 8)},
      {recorded("train", 10, 8), recorded("train", 10, 16)},
      {recorded(kUnnamed, 10, 8), recorded(kUnnamed, 20, 8)},
      {recorded(kUnnamed, 0, 8), recorded(kUnnamed, 0, 8)},
      {recorded(kUnnamed, 0, 0), recorded("train", 0, 0)}};
  for (const auto& [base, test] : open) {
    EXPECT_FALSE(matches(base, test)) << base.runs[0].model << test.runs[0].model;
    EXPECT_TRUE(matches(base, test, /*as_same=*/true));
  }
  // Runs of bench are what they say.
  EXPECT_FALSE(matches(record_of({plain_run("ddp", 2)}),
                       record_of({with(plain_run("ddp", 2), [](Row& run) { run.batch_per_rank = 16; })}),
                       true));
}

}  // namespace
}  // namespace lockstep::results
