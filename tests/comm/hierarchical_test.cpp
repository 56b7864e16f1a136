#include <atomic>
#include <string>
#include <thread>
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
  // Whole numbers far below 2^24: sums are exact in any order.
  EXPECT_TRUE(values == values_of(ranks * (ranks + 1) / 2 - 1));
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

TEST(HierarchicalTest, a_rank_that_does_not_come_is_named_on_its_host_and_noticed_on_others) {
  for (const int absent : {0, 3}) {
    std::atomic<int> failed = 0;
    run_threads(4, Duration(1), [&](Communicator& comm) {
      const auto group = make_hierarchical(comm, host_of(comm, 2));
      if (comm.rank() == absent) {
        while (failed < 3) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return;
      }
      float value = 1;
      try {
        group->all_reduce(host_buffer(&value, 1), ReduceOp::kSum)->wait(Duration(20));
        ADD_FAILURE() << "summed without rank " << absent;
      } catch (const CommError& error) {
        const bool same_host = comm.rank() % 2 == absent % 2;
        EXPECT_EQ(std::string(error.what()).find("no answer from rank " + std::to_string(absent)) !=
                      std::string::npos,
                  same_host)
            << error.what();
      }
      EXPECT_THROW(group->all_reduce(host_buffer(&value, 1), ReduceOp::kSum), CommError);
      ++failed;
    });
  }
}

}  // namespace
}  // namespace lockstep::comm
