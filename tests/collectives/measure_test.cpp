#include "lockstep/collectives/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/record.h"
#include "lockstep/comm/forwarding_communicator.h"

#include "comm/rank_world.h"

namespace lockstep::collectives {
namespace {

using comm::Communicator;

const Pacing kShort{.warmup = 1, .iterations = 3};

/// Rank 0's row, measured by threads.
Row measured(Row row, const Pacing& pacing = kShort) {
  settle(row);
  Row result;
  comm::run_threads(row.ranks, comm::test_timeout(), [&](Communicator& comm) {
    std::vector<std::unique_ptr<Communicator>> more;
    std::vector<Communicator*> lanes{&comm};
    while (int(lanes.size()) < row.at_a_time) lanes.push_back(more.emplace_back(comm.duplicate()).get());
    Row own = row;
    measure_row(own, lanes, pacing, [](int64_t) {});
    if (comm.rank() == 0) result = own;
  });
  return result;
}

Row row_of(const std::string& collective, int ranks, const std::string& place, int64_t bytes = 5000) {
  return {.collective = collective, .backend = "thread", .ranks = ranks, .bytes = bytes, .place = place};
}

TEST(MeasureRowTest, every_collective_in_every_type_and_place_is_right) {
  for (const auto& [name, operation] : operations().entries()) {
    for (const int ranks : {1, 2, 3, 4}) {
      if (!operation.kind && ranks == 1) continue;
      for (const char* place : {kInPlace, kOutOfPlace}) {
        if (!(place == kInPlace ? operation.in_place : operation.out_of_place)) continue;
        for (const char* dtype : {"fp32", "fp64", "fp16", "bf16", "uint8", "int32", "int64"}) {
          Row row = row_of(name, ranks, place);
          row.dtype = dtype;
          const Row found = measured(row);
          EXPECT_EQ(found.wrong, 0) << found.series();
          EXPECT_EQ(found.iteration_s.size(), 3U) << found.series();
          for (const double time_s : found.iteration_s) EXPECT_GT(time_s, 0);
        }
      }
    }
  }
}

TEST(MeasureRowTest, sizes_become_whole_elements_of_every_part) {
  Row row = row_of("all_gather", 3, kInPlace, 8);
  settle(row);
  EXPECT_EQ(row.count, 1);
  EXPECT_EQ(row.bytes, 12);
  EXPECT_EQ(row.op, "none");
  EXPECT_EQ(buffer_bytes(row), 12);
  row.place = kOutOfPlace;
  EXPECT_EQ(buffer_bytes(row), 16);
  row = row_of("all_reduce", 3, kInPlace, 1003);
  settle(row);
  EXPECT_EQ(row.bytes, 1000);
  EXPECT_EQ(row.op, "sum");
  EXPECT_THROW(settle(row = row_of("send_recv", 1, kOutOfPlace)), ConfigError);
  EXPECT_THROW(settle(row = row_of("gather", 2, kOutOfPlace)), ConfigError);
}

TEST(MeasureRowTest, several_at_a_time_and_while_computing_are_checked_too) {
  Row row = row_of("all_reduce", 2, kInPlace, 4000000);
  row.at_a_time = 3;
  EXPECT_EQ(measured(row).wrong, 0);
  row.computing = true;
  Pacing pacing = kShort;
  pacing.compute_threads = 2;
  const Row found = measured(row, pacing);
  EXPECT_EQ(found.wrong, 0);
  EXPECT_GE(found.phi_c.value_or(0), 0);
}

TEST(MeasureRowTest, without_a_number_iterations_take_the_time) {
  Pacing pacing{.warmup = 2, .min_time_s = 1e-9, .check = false};
  const Row fewest = measured(row_of("broadcast", 2, kInPlace), pacing);
  EXPECT_EQ(fewest.iteration_s.size(), 10U);
  EXPECT_FALSE(fewest.wrong);
  pacing.min_time_s = 100;
  EXPECT_EQ(measured(row_of("broadcast", 2, kInPlace, 8), pacing).iteration_s.size(), 1000U);
}

/// Changes one byte of every collective's result.
class Corrupting final : public comm::ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  void run(const comm::Collective& collective) override {
    real_.run(collective);
    if (collective.bytes() > 64)
      static_cast<char*>(collective.output.data)[collective.output.bytes() - 1] ^= 1;
  }
};

TEST(MeasureRowTest, wrong_elements_are_counted) {
  Row row = row_of("all_gather", 2, kOutOfPlace);
  settle(row);
  comm::run_threads(2, comm::test_timeout(), [&](Communicator& comm) {
    Corrupting corrupting(comm);
    std::vector<Communicator*> lanes{&corrupting};
    Row own = row;
    measure_row(own, lanes, kShort, [](int64_t) {});
    // On both ranks, before and after the iterations.
    EXPECT_TRUE(comm.rank() != 0 || own.wrong == 4);
  });
}

TEST(TestValuesTest, tells_ranks_and_places_apart) {
  std::vector<float> values(1000);
  const TestValues first(comm::DType::kFloat32, 4, 0), second(comm::DType::kFloat32, 4, 1);
  first.fill(values.data(), 5, values.size());
  EXPECT_EQ(first.count_wrong(values.data(), 5, values.size()), 0);
  EXPECT_EQ(first.count_wrong(values.data(), 6, values.size()), 1000);
  EXPECT_EQ(second.count_wrong(values.data(), 5, values.size()), 1000);
  values[17] = -1;
  EXPECT_EQ(first.count_wrong(values.data(), 5, values.size()), 1);
}

}  // namespace
}  // namespace lockstep::collectives
