#include <vector>

#include <gtest/gtest.h>

#include "comm/rank_world.h"
#include "comm/typed_values.h"

namespace lockstep::comm {
namespace {

int64_t sum_of_ranks(Communicator& comm, int64_t mine) {
  comm.all_reduce(host_buffer(&mine, 1), ReduceOp::kSum)->wait();
  return mine;
}

TEST(SplitTest, a_part_numbers_its_ranks_from_zero) {
  RankWorld::get().run([](Communicator& comm) {
    for (int first = 0; first < comm.size(); ++first) {
      std::vector<int> members;
      int64_t expected = 0;
      for (int rank = first; rank < comm.size(); rank += 2) {
        members.push_back(rank);
        expected += rank;
      }
      const bool member = comm.rank() >= first && (comm.rank() - first) % 2 == 0;
      const auto part = comm.split(members);
      ASSERT_EQ(part != nullptr, member);
      if (!part) continue;
      EXPECT_EQ(part->size(), int(members.size()));
      EXPECT_EQ(part->rank(), (comm.rank() - first) / 2);
      EXPECT_EQ(part->backend(), comm.backend());
      EXPECT_EQ(sum_of_ranks(*part, comm.rank()), expected);
    }
    EXPECT_EQ(sum_of_ranks(comm, 1), comm.size());
  });
}

TEST(SplitTest, parts_nest_and_outlive_their_parents) {
  RankWorld::get().run([](Communicator& comm) {
    auto copy = comm.split(first_ranks(comm.size()));
    ASSERT_NE(copy, nullptr);
    std::unique_ptr<Communicator> inner;
    if (comm.size() > 1) {
      std::vector<int> all_but_first = first_ranks(comm.size());
      all_but_first.erase(all_but_first.begin());
      inner = copy->split(all_but_first);
    }
    copy.reset();
    if (!inner) return;
    const int64_t sum = sum_of_ranks(*inner, comm.rank());
    EXPECT_EQ(sum, int64_t(comm.size()) * (comm.size() - 1) / 2);
  });
}

TEST(SplitTest, parts_do_not_hear_each_other) {
  RankWorld::get().run([](Communicator& comm) {
    if (comm.size() < 2) return;
    // The same tag in the whole and in a part of two, sent in the opposite order of the receives.
    const auto pair = comm.split(std::vector{0, 1});
    if (!pair) return;
    int32_t in_whole = comm.rank() == 0 ? 1 : 0;
    int32_t in_part = comm.rank() == 0 ? 2 : 0;
    const Buffer whole = host_buffer(&in_whole, 1);
    const Buffer part = host_buffer(&in_part, 1);
    if (comm.rank() == 0) {
      const WorkPtr first = comm.send(whole, 1, 0);
      const WorkPtr second = pair->send(part, 1, 0);
      first->wait();
      second->wait();
    } else {
      const WorkPtr second = pair->receive(part, 0, 0);
      const WorkPtr first = comm.receive(whole, 0, 0);
      second->wait();
      first->wait();
    }
    EXPECT_EQ(in_whole, 1);
    EXPECT_EQ(in_part, 2);
  });
}

TEST(SplitTest, whole_and_part_work_at_the_same_time) {
  RankWorld::get().run([](Communicator& comm) {
    const auto copy = comm.split(first_ranks(comm.size()));
    ASSERT_NE(copy, nullptr);
    std::vector<float> a(20000, 1.f);
    std::vector<float> b(20000, 2.f);
    // Opposite orders on even and odd ranks are legal: the two are independent.
    Communicator* order[] = {&comm, copy.get()};
    const WorkPtr first = order[comm.rank() % 2]->all_reduce(
        comm.rank() % 2 == 0 ? host_buffer(a.data(), a.size()) : host_buffer(b.data(), b.size()),
        ReduceOp::kSum);
    const WorkPtr second = order[1 - comm.rank() % 2]->all_reduce(
        comm.rank() % 2 == 0 ? host_buffer(b.data(), b.size()) : host_buffer(a.data(), a.size()),
        ReduceOp::kSum);
    first->wait();
    second->wait();
    EXPECT_EQ(a[19999], float(comm.size()));
    EXPECT_EQ(b[19999], 2.f * float(comm.size()));
  });
}

TEST(SplitTest, a_duplicate_waits_for_nothing_on_the_original) {
  RankWorld::get().run([](Communicator& comm) {
    const auto duplicate = comm.duplicate();
    ASSERT_NE(duplicate, nullptr);
    EXPECT_EQ(duplicate->size(), comm.size());
    EXPECT_EQ(duplicate->rank(), comm.rank());
    // Rank 0 takes part in the first one only after the second is through.
    int64_t late = 1;
    WorkPtr first;
    if (comm.rank() != 0) first = comm.all_reduce(host_buffer(&late, 1), ReduceOp::kSum);
    EXPECT_EQ(sum_of_ranks(*duplicate, 2), 2 * comm.size());
    if (comm.rank() == 0) first = comm.all_reduce(host_buffer(&late, 1), ReduceOp::kSum);
    first->wait();
    EXPECT_EQ(late, comm.size());
  });
}

TEST(SplitTest, what_the_threads_of_a_duplicate_use_is_counted_with_the_original) {
  RankWorld::get().run([](Communicator& comm) {
    if (comm.size() == 1) return;
    const auto duplicate = comm.duplicate();
    const double before_s = comm.progress_thread_cpu_s();
    const double duplicate_before_s = duplicate->progress_thread_cpu_s();
    std::vector<float> values(1 << 20, 1.f);
    for (int i = 0; i < 3; ++i) {
      duplicate->all_reduce(host_buffer(values.data(), values.size()), ReduceOp::kSum)->wait();
    }
    const double duplicate_s = duplicate->progress_thread_cpu_s() - duplicate_before_s;
    EXPECT_GT(duplicate_s, 0);
    EXPECT_GE(comm.progress_thread_cpu_s() - before_s, duplicate_s / 2);
  });
}

}  // namespace
}  // namespace lockstep::comm
