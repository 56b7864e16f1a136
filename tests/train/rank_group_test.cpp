#include "lockstep/train/rows/rank_group.h"

#include <memory>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include <ATen/Parallel.h>

#include "lockstep/comm/backend.h"
#include "lockstep/launch/threads.h"
#include "lockstep/train/rows/row_trainee.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

constexpr comm::Duration kLimit{2};
/// Longer than the communicator's limit on time.
constexpr comm::Duration kLong{3};

/// Two ranks whose communicator gives up after kLimit, with a store.
void with_two_ranks(const std::function<void(const train::RankGroup&)>& body) {
  comm::HashStore store;
  launch::run_threads(2, [&](int rank) {
    at::set_num_threads(1);
    const auto communicator = comm::connect(
        "thread", {.rank = rank, .size = 2, .store = &store, .timeout = kLimit, .interface = ""});
    train::RankGroup group = communicator.get();
    group.store = &store;
    group.keys = "row/0/";
    body(group);
  });
}

TEST(RankGroupTest, the_others_sleep_for_as_long_as_rank_0_works_alone) {
  with_two_ranks([](const train::RankGroup& group) {
    bool worked = false;
    group.on_rank_0_alone("work", [&] {
      std::this_thread::sleep_for(kLong);
      worked = true;
    });
    EXPECT_EQ(worked, group.rank() == 0);
    group.control->barrier()->wait();
  });
}

/// Hands on another input, slowly.
class SlowInput final : public inputs::Input {
 public:
  SlowInput(std::unique_ptr<inputs::Input> real, comm::Duration pause)
      : real_(std::move(real)), pause_(pause) {}
  const inputs::Batch& next() override {
    std::this_thread::sleep_for(pause_);
    return real_->next();
  }

 private:
  std::unique_ptr<inputs::Input> real_;
  comm::Duration pause_;
};

TEST(RankGroupTest, uncoupled_ranks_go_on_for_as_long_as_the_slowest_takes) {
  train::SweepOptions sweep;
  sweep.models = {"mlp"};
  sweep.batches = {2};
  sweep.ranks = {2};
  sweep.strategies = {"independent"};
  sweep.controls = false;
  const train::RowPlan row = train::plan_rows(sweep).front();
  with_two_ranks([&](const train::RankGroup& group) {
    launch::Progress progress;
    constexpr int kSteps = 6;
    const comm::Duration pause = group.rank() == 1 ? kLong / kSteps : comm::Duration(0.05);
    train::RowTrainee trainee(row, group, nullptr, {.make_input = [&](auto accelerator) {
                                return std::make_unique<SlowInput>(
                                    train::create_input(row, group.rank(), std::move(accelerator)), pause);
                              }});
    const train::StepLoopResult result =
        trainee.train({.warmup_steps = 0, .steps = kSteps}, /*coupled=*/false, false, progress);
    EXPECT_GE(result.step_s.size(), group.rank() == 1 ? 6u : 7u);
  });
}

}  // namespace
}  // namespace lockstep
