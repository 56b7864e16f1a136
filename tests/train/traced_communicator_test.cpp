#include "lockstep/train/step/traced_communicator.h"

#include <future>

#include <gtest/gtest.h>

#include "lockstep/base/clock.h"

#include "strategies/trained_replica.h"
#include "train/slow_link.h"

namespace lockstep::train {
namespace {

/// Calls back later than it is complete, as the progress thread of a busy machine does.
class LateWork final : public comm::Work {
 public:
  LateWork(comm::WorkPtr real, std::function<void()> delay)
      : real_(std::move(real)), delay_(std::move(delay)) {}

  bool test() override { return real_->test(); }
  void wait(comm::Duration timeout) override { real_->wait(timeout); }
  void wait() override { real_->wait(); }
  void on_complete(std::function<void()> done) override {
    later_ = std::async(std::launch::async, [this, done = std::move(done)] {
      real_->wait();
      delay_();
      done();
    });
  }

 private:
  comm::WorkPtr real_;
  std::function<void()> delay_;
  std::future<void> later_;
};

class LateCommunicator final : public comm::ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;

  comm::WorkPtr issue(const comm::Collective& collective) override {
    return std::make_unique<LateWork>(real_.issue(collective), delay);
  }

  std::function<void()> delay = [] { test::sleep_s(0.01); };
};

std::vector<CollectiveStamp> take_stamps(TracedCommunicator& traced) {
  return traced.take_stamps(traced.issued(), StepClock(nullptr));
}

TEST(TracedCommunicatorTest, what_was_waited_for_has_all_its_stamps) {
  test::with_thread_ranks(2, [](comm::Communicator& group) {
    LateCommunicator late(group);
    TracedCommunicator traced(late);
    for (int step = 0; step < 3; ++step) {
      const double begin_s = now_s();
      std::vector<float> values(8, 1);
      std::vector<comm::WorkPtr> works;
      for (int i = 0; i < 2; ++i) {
        works.push_back(traced.all_reduce(comm::host_buffer(values.data(), 8), comm::ReduceOp::kSum));
      }
      works[0]->wait();
      while (!works[1]->test()) test::sleep_s(0.001);
      const std::vector<CollectiveStamp> stamps = take_stamps(traced);
      ASSERT_EQ(stamps.size(), 2u);
      for (const CollectiveStamp& stamp : stamps) {
        EXPECT_GE(stamp.issued_s, begin_s);
        EXPECT_GE(stamp.ended_s, stamp.issued_s);
      }
    }
  });
}

TEST(TracedCommunicatorTest, an_end_that_comes_after_its_stamps_were_taken_is_not_another_ones) {
  test::with_thread_ranks(2, [](comm::Communicator& group) {
    LateCommunicator late(group);
    TracedCommunicator traced(late);
    std::vector<float> values(8, 1), others(8, 1);
    const auto issue = [&](std::vector<float>& buffer, std::promise<void>& may_call_back) {
      late.delay = [&] { may_call_back.get_future().wait(); };
      return traced.all_reduce(comm::host_buffer(buffer.data(), 8), comm::ReduceOp::kSum);
    };
    std::promise<void> first_may, second_may;
    const comm::WorkPtr first = issue(values, first_may);
    EXPECT_EQ(take_stamps(traced).size(), 1u);
    const comm::WorkPtr second = issue(others, second_may);
    first_may.set_value();
    first->wait();
    EXPECT_FALSE(second->test());
    EXPECT_EQ(take_stamps(traced).front().ended_s, 0);
    second_may.set_value();
    second->wait();
  });
}

}  // namespace
}  // namespace lockstep::train
