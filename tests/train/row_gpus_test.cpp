#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/train/rows/gather.h"
#include "lockstep/train/rows/row_runner.h"

#include "strategies/trained_replica.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Uses = std::vector<topology::GpuUse>;

topology::GpuUse use_of(int rank) {
  topology::GpuUse use;
  use.samples = 10 + rank;
  use.sm_clock_mhz = topology::Spread{1000, 1500.5, 1980};
  use.slowed_share = 0.1;
  use.slowed_by = {{"power cap", 0.1}};
  return use;
}

TEST(RowGpusTest, what_the_gpus_of_all_ranks_did_comes_together_on_all) {
  test::with_thread_ranks(3, [](comm::Communicator& group) {
    // The last rank has two.
    Uses own{use_of(group.rank())};
    if (group.rank() == 2) own.push_back(use_of(3));
    EXPECT_EQ(train::gather_records(own, &group),
              (std::vector<Uses>{{use_of(0)}, {use_of(1)}, {use_of(2), use_of(3)}}));
    EXPECT_EQ(train::gather_records(Uses(), &group), std::vector<Uses>(3));
  });
  EXPECT_EQ(train::gather_records(Uses{use_of(7)}, nullptr), std::vector<Uses>{{use_of(7)}});
}

TEST(RowGpusTest, a_row_on_a_processor_watches_nothing_and_sets_nothing) {
  const train::RowPlan row = train::plan_rows({.models = {"mlp"},
                                               .batches = {4},
                                               .strategies = {"single"},
                                               .pacing = {.warmup_steps = 0, .steps = 2}})
                                 .front();
  launch::Progress progress;
  const train::RowResult result = train::run_row(row, nullptr, progress);
  ASSERT_THAT(result.ranks, SizeIs(1));
  EXPECT_THAT(result.ranks[0].gpus, IsEmpty());
  EXPECT_EQ(result.device_settings, "");
}

TEST(RowGpusTest, how_libtorch_is_set_is_told_of_a_row_on_a_gpu) {
  train::RowPlan row;
  row.device = "cuda";
  EXPECT_THAT(train::device_settings(row), HasSubstr("fp32 matrix products in ieee, convolutions in "));
}

}  // namespace
}  // namespace lockstep
