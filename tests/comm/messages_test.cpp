#include <condition_variable>
#include <mutex>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "comm/rank_world.h"
#include "comm/typed_values.h"

namespace lockstep::comm {
namespace {

/// The ranks of a backend whose messages pass each other and the collectives.
bool has_tags(Communicator& comm) {
  return comm.size() > 1 && comm.capabilities().message_tags;
}

bool has_receive_any(Communicator& comm) {
  return comm.size() > 1 && comm.capabilities().receive_any;
}

void wait_all(const std::vector<WorkPtr>& works) {
  for (const WorkPtr& work : works) work->wait();
}

TEST(MessagesTest, every_pair_exchanges_every_size) {
  RankWorld::get().run([](Communicator& comm) {
    const int ranks = comm.size();
    for (const size_t count : {size_t{0}, size_t{1}, size_t{10}, size_t{100003}}) {
      std::vector<TypedValues> sent;
      std::vector<TypedValues> received;
      for (int peer = 0; peer < ranks; ++peer) {
        sent.push_back(TypedValues::scrambled_bytes(DType::kFloat32, count, comm.rank() * ranks + peer));
        received.emplace_back(DType::kFloat32, count);
      }
      std::vector<WorkPtr> works;
      for (int peer = 0; peer < ranks; ++peer) {
        if (peer == comm.rank()) continue;
        works.push_back(comm.receive(received[size_t(peer)].buffer(), peer, 5));
        works.push_back(comm.send(sent[size_t(peer)].buffer(), peer, 5));
      }
      wait_all(works);
      for (int peer = 0; peer < ranks; ++peer) {
        if (peer == comm.rank()) continue;
        EXPECT_EQ(received[size_t(peer)],
                  TypedValues::scrambled_bytes(DType::kFloat32, count, peer * ranks + comm.rank()));
      }
    }
  });
}

TEST(MessagesTest, messages_are_ordered_per_peer_and_tag) {
  RankWorld::get().run([](Communicator& comm) {
    if (!has_tags(comm)) return;
    constexpr int kMessages = 20;
    const int next = (comm.rank() + 1) % comm.size();
    const int previous = (comm.rank() + comm.size() - 1) % comm.size();
    std::vector<int32_t> out[2];
    std::vector<int32_t> in[2];
    std::vector<WorkPtr> works;
    for (int tag : {0, 1}) {
      for (int i = 0; i < kMessages; ++i) out[tag].push_back(comm.rank() * 1000 + tag * 100 + i);
      in[tag].assign(kMessages, -1);
    }
    // Tag 1 is received first, although it is sent last.
    for (int tag : {1, 0}) {
      for (int32_t& value : in[tag]) works.push_back(comm.receive(host_buffer(&value, 1), previous, tag));
    }
    for (int tag : {0, 1}) {
      for (int32_t& value : out[tag]) works.push_back(comm.send(host_buffer(&value, 1), next, tag));
    }
    wait_all(works);
    for (int tag : {0, 1}) {
      for (int i = 0; i < kMessages; ++i) EXPECT_EQ(in[tag][size_t(i)], previous * 1000 + tag * 100 + i);
    }
  });
}

TEST(MessagesTest, a_message_may_be_sent_long_before_it_is_received) {
  RankWorld::get().run([](Communicator& comm) {
    if (!has_tags(comm)) return;
    TypedValues values = TypedValues::scrambled_bytes(DType::kInt64, 5000, comm.rank());
    WorkPtr sent;
    if (comm.rank() == 0) sent = comm.send(values.buffer(), 1, (1 << 20) - 1);
    comm.barrier()->wait();
    if (comm.rank() == 1) {
      comm.receive(values.buffer(), 0, (1 << 20) - 1)->wait();
      EXPECT_EQ(values, TypedValues::scrambled_bytes(DType::kInt64, 5000, 0));
    }
    if (sent) sent->wait();
  });
}

TEST(MessagesTest, messages_pass_collectives_in_flight) {
  RankWorld::get().run([](Communicator& comm) {
    if (!has_tags(comm)) return;
    // Rank 0 enters the collective only after the last rank has answered, so a message that waited for the
    // collective would never arrive.
    const int last = comm.size() - 1;
    std::vector<float> values(1000, 1.f);
    const Buffer buffer = host_buffer(values.data(), values.size());
    int32_t question = 7;
    int32_t answer = 0;
    WorkPtr collective;
    if (comm.rank() != 0) collective = comm.all_reduce(buffer, ReduceOp::kSum);
    if (comm.rank() == 0) {
      comm.send(host_buffer(&question, 1), last, 1)->wait();
      comm.receive(host_buffer(&answer, 1), last, 2)->wait();
      EXPECT_EQ(answer, 8);
      collective = comm.all_reduce(buffer, ReduceOp::kSum);
    } else if (comm.rank() == last) {
      comm.receive(host_buffer(&answer, 1), 0, 1)->wait();
      ++answer;
      comm.send(host_buffer(&answer, 1), 0, 2)->wait();
    }
    collective->wait();
    EXPECT_EQ(values[0], float(comm.size()));
  });
}

TEST(MessagesTest, receive_any_takes_from_everybody_and_says_from_whom) {
  RankWorld::get().run([](Communicator& comm) {
    if (!has_receive_any(comm)) return;
    constexpr int kRounds = 5;
    if (comm.rank() != 0) {
      for (int round = 0; round < kRounds; ++round) {
        int64_t value = comm.rank() * 100 + round;
        comm.send(host_buffer(&value, 1), 0, 9)->wait();
      }
    } else {
      std::vector<int> next_round(size_t(comm.size()), 0);
      for (int i = 0; i < kRounds * (comm.size() - 1); ++i) {
        int64_t value = -1;
        const WorkPtr work = comm.receive_any(host_buffer(&value, 1), 9);
        work->wait();
        ASSERT_GT(work->source(), 0);
        ASSERT_EQ(value, work->source() * 100 + next_round[size_t(work->source())]++);
      }
    }
    comm.barrier()->wait();
  });
}

TEST(MessagesTest, several_receive_any_may_wait_at_once) {
  RankWorld::get().run([](Communicator& comm) {
    if (!has_receive_any(comm)) return;
    if (comm.rank() == 0) {
      std::vector<int64_t> values(size_t(comm.size() - 1), -1);
      std::vector<WorkPtr> works;
      works.reserve(values.size());
      for (int64_t& value : values) works.push_back(comm.receive_any(host_buffer(&value, 1), 3));
      comm.barrier()->wait();
      std::set<int> sources;
      for (size_t i = 0; i < works.size(); ++i) {
        works[i]->wait();
        EXPECT_EQ(values[i], works[i]->source() * 11);
        sources.insert(works[i]->source());
      }
      EXPECT_EQ(sources.size(), works.size());
    } else {
      comm.barrier()->wait();
      int64_t value = comm.rank() * 11;
      comm.send(host_buffer(&value, 1), 0, 3)->wait();
    }
  });
}

TEST(MessagesTest, on_complete_is_called_for_messages) {
  RankWorld::get().run([](Communicator& comm) {
    if (!has_tags(comm) || comm.rank() > 1) return;
    std::mutex mutex;
    std::condition_variable changed;
    int called = 0;
    const auto count = [&] {
      std::lock_guard lock(mutex);
      ++called;
      changed.notify_all();
    };
    const int peer = 1 - comm.rank();
    int32_t out = comm.rank() + 40;
    int32_t in = 0;
    const WorkPtr received = comm.receive(host_buffer(&in, 1), peer, 4);
    received->on_complete(count);
    const WorkPtr sent = comm.send(host_buffer(&out, 1), peer, 4);
    sent->on_complete(count);
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, test_timeout(), [&] { return called == 2; }));
    EXPECT_TRUE(received->test());
    EXPECT_TRUE(sent->test());
    EXPECT_EQ(in, peer + 40);
  });
}

}  // namespace
}  // namespace lockstep::comm
