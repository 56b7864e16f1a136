#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/forwarding_communicator.h"
#include "lockstep/comm/hierarchical_communicator.h"
#include "lockstep/comm/host_memory.h"

#include "comm/rank_world.h"

namespace lockstep::comm {
namespace {

/// More than the pieces that are under way at a time, and a rest.
constexpr size_t kCount = 9 * HostMemory::kPieceBytes / sizeof(float) + 5;

std::string host_of(const Communicator& comm, int hosts) {
  return "host " + std::to_string(comm.rank() % hosts);
}

std::vector<float> values_of(int rank) {
  std::vector<float> values(kCount);
  for (size_t i = 0; i < kCount; ++i) values[i] = static_cast<float>((i * 7 + 1) % 1001) * (1 + rank);
  return values;
}

void expect_sum(const std::vector<float>& values, int ranks) {
  const std::vector<float> one = values_of(0);
  // Whole numbers far below 2^24: sums are exact in any order.
  const auto factor = static_cast<float>(ranks * (ranks + 1) / 2);
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(values[i], one[i] * factor) << "element " << i;
}

/// Counts the all-reduces that reach the real communicator.
class CountingAllReduces final : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  WorkPtr issue(const Collective& collective) override {
    all_reduces += collective.kind == Collective::Kind::kAllReduce;
    return real_.issue(collective);
  }
  int all_reduces = 0;
};

TEST(HierarchicalTest, sums_of_many_pieces_on_two_lanes_at_once) {
  for (const int hosts : {1, 2, 3}) {
    run_threads(5, test_timeout(), [&](Communicator& comm) {
      const auto group = make_hierarchical(comm, host_of(comm, hosts));
      const auto lane = group->duplicate();
      std::vector<float> one = values_of(comm.rank()), two = one, three = one;
      const WorkPtr works[] = {group->all_reduce(host_buffer(one.data(), kCount), ReduceOp::kSum),
                               lane->all_reduce(host_buffer(two.data(), kCount), ReduceOp::kSum),
                               group->all_reduce(host_buffer(three.data(), kCount), ReduceOp::kSum)};
      for (const WorkPtr& work : works) work->wait();
      expect_sum(one, comm.size());
      expect_sum(two, comm.size());
      expect_sum(three, comm.size());
    });
  }
}

TEST(HierarchicalTest, all_reduces_leave_the_communicator_of_all_ranks_alone_unless_each_has_a_host) {
  for (const int hosts : {2, 4}) {
    run_threads(4, test_timeout(), [&](Communicator& comm) {
      CountingAllReduces counting(comm);
      const auto group = make_hierarchical(counting, host_of(comm, hosts));
      std::vector<float> values = values_of(comm.rank());
      group->all_reduce(host_buffer(values.data(), kCount), ReduceOp::kSum)->wait();
      expect_sum(values, comm.size());
      EXPECT_EQ(counting.all_reduces, hosts == 4 ? 1 : 0);
    });
  }
}

TEST(HierarchicalTest, a_rank_that_does_not_come_is_noticed_in_time_on_its_host_and_the_others) {
  for (const int absent : {0, 3}) {
    run_threads(4, Duration(1), [&](Communicator& comm) {
      const auto group = make_hierarchical(comm, host_of(comm, 2));
      if (comm.rank() != absent) {
        float value = 1;
        EXPECT_THROW(group->all_reduce(host_buffer(&value, 1), ReduceOp::kSum)->wait(Duration(20)),
                     CommError);
        EXPECT_THROW(group->all_reduce(host_buffer(&value, 1), ReduceOp::kSum), CommError);
      }
      // The failure of the sums is not that of the real communicator. Its own ranks come late.
      try {
        comm.barrier()->wait(Duration(20));
      } catch (const CommError&) {
      }
    });
  }
}

}  // namespace
}  // namespace lockstep::comm
