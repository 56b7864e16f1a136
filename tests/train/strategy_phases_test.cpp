// What every strategy's steps are made of, against what was built into them: the link's time, a rank that
// comes late, and the optimizer.

#include <cmath>
#include <mutex>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/measure/phases.h"
#include "lockstep/train/step/clock_sync.h"
#include "lockstep/train/step/traced_communicator.h"

#include "strategies/trained_replica.h"
#include "train/busy_machine.h"
#include "train/slow_link.h"

namespace lockstep {
namespace {

using strategies::StrategyOptions;

const double kNoise = test::quiet_machine() ? 0.1 : 0.3;

struct StrategyCase {
  std::string name;
  std::string strategy;
  StrategyOptions options;
  /// A strategy whose update, of all parameters in the same memory, is a phase of its own; empty: there is
  /// none.
  std::string same_update = {};
  /// Part of the parameters that a rank's optimizer updates at two ranks.
  double updates = 1;
};

StrategyOptions without_overlap() {
  return {.overlap = false};
}

std::vector<StrategyCase> strategies_that_communicate() {
  StrategyOptions average = without_overlap();
  average.bsp_sync = strategies::BspSync::kAvg;
  return {{"ddp", "ddp", without_overlap(), "independent"},
          {"replicated", "replicated", without_overlap(), "horovod"},
          {"sharded", "sharded", without_overlap(), "horovod", 0.5},
          {"horovod", "horovod", without_overlap()},
          {"parameter_server", "parameter_server", without_overlap(), "horovod", 0.5},
          {"local_sgd", "local_sgd", without_overlap(), "horovod"},
          {"bsp_cdd", "bsp", without_overlap()},
          {"bsp_avg", "bsp", average}};
}

StrategyCase async_server() {
  StrategyOptions async = without_overlap();
  async.consistency = strategies::Consistency::kAsync;
  return {"async_parameter_server", "parameter_server", async};
}

class LateInput final : public inputs::Input {
 public:
  LateInput(std::unique_ptr<inputs::Input> real, double delay_s)
      : real_(std::move(real)), delay_s_(delay_s) {}

  const inputs::Batch& next() override {
    test::sleep_s(delay_s_);
    return real_->next();
  }

 private:
  std::unique_ptr<inputs::Input> real_;
  double delay_s_;
};

struct Built {
  int ranks = 2;
  double s_per_byte = 0;
  /// Delay of rank 1 in every step.
  double late_s = 0;
  std::string model = "lenet5";
  int image_size = 0;
  int steps = 8;
};

struct Found {
  measure::Breakdown breakdown;
};

Found train(const StrategyCase& what, const Built& built) {
  std::mutex mutex;
  std::vector<measure::RankStamps> ranks(static_cast<size_t>(built.ranks));
  Found found;
  test::with_thread_ranks(built.ranks, [&](comm::Communicator& group) {
    test::SlowLink link(group, {.s_per_byte = built.s_per_byte});
    train::TracedCommunicator tracer(link);
    const train::ClockOffset clock = train::estimate_clock_offset(group);
    test::TrainedReplica replica = test::make_replica({.model = built.model,
                                                       .strategy = what.strategy,
                                                       .batch = 2,
                                                       .image_size = built.image_size,
                                                       .strategy_options = what.options},
                                                      &tracer);
    tracer.forget_stamps();
    if (group.rank() == 1 && built.late_s > 0) {
      replica.input = std::make_unique<LateInput>(std::move(replica.input), built.late_s);
    }
    launch::Progress progress;
    train::StepLoopResult result =
        train::run_steps({.model = *replica.model,
                          .input = *replica.input,
                          .strategy = *replica.strategy,
                          .communicator = &group,
                          .stamp_phases = true,
                          .tracer = &tracer,
                          .activities = replica.activities.get()},
                         {.pacing = {.warmup_steps = 3, .steps = built.steps}}, progress);
    const std::lock_guard lock(mutex);
    ranks[static_cast<size_t>(group.rank())] = {std::move(result.stamps), clock.offset_s, clock.error_s};
  });
  found.breakdown = measure::break_down(ranks);
  return found;
}

std::string apart(const char* what, double value_s, double expected_s, double tolerance_s) {
  if (std::abs(value_s - expected_s) <= tolerance_s) return "";
  return fmt::format("{} is {:.2f} ms instead of {:.2f} +- {:.2f}; ", what, 1e3 * value_s, 1e3 * expected_s,
                     1e3 * tolerance_s);
}

void PrintTo(const StrategyCase& what, std::ostream* out) {
  *out << what.name;
}

class StrategyPhasesTest : public testing::TestWithParam<StrategyCase> {};

TEST_P(StrategyPhasesTest, one_rank_neither_transfers_nor_waits) {
  const measure::PhaseTimes mean = train(GetParam(), {.ranks = 1}).breakdown.mean;
  EXPECT_EQ(mean.transfer_s, 0);
  EXPECT_EQ(mean.waiting_s, 0);
  EXPECT_GT(mean.optimizer_s, 0);
}

TEST_P(StrategyPhasesTest, the_links_time_is_transfer) {
  // Bsp sends a message for each tensor, and a busy machine delays every one of them.
  if (GetParam().strategy == "bsp" && !test::quiet_machine()) return;
  if (GetParam().options.consistency == strategies::Consistency::kAsync) {
    // Messages do not pass the slow link; the fetch before forward is exposed all the same.
    EXPECT_GT(train(async_server(), {}).breakdown.mean.transfer_s, 0);
    return;
  }
  test::expect_once([] {
    const measure::Breakdown found = train(GetParam(), {.s_per_byte = 150e-9}).breakdown;
    double known_s = 0;
    for (const measure::BucketTimes& bucket : found.ranks[0].buckets) {
      // Agreements are below.
      if (bucket.bytes >= 100) known_s += 150e-9 * static_cast<double>(bucket.bytes);
    }
    EXPECT_GT(known_s, 0.03);
    return apart("transfer", found.mean.transfer_s, known_s, kNoise * known_s) +
           apart("waiting", found.mean.waiting_s, 0, kNoise * known_s);
  });
}

TEST_P(StrategyPhasesTest, a_late_rank_is_waited_for) {
  if (GetParam().options.consistency == strategies::Consistency::kAsync) return;
  if (GetParam().strategy == "bsp" && !test::quiet_machine()) return;
  test::expect_once([] {
    const measure::Breakdown found = train(GetParam(), {.late_s = 0.03}).breakdown;
    const double lost_s = found.ranks[1].mean.input_s - found.ranks[0].mean.input_s;
    return std::string(found.straggler == 1 ? "" : "rank 1 is not named; ") +
           apart("waiting", found.ranks[0].mean.waiting_s, lost_s, kNoise * lost_s) +
           apart("transfer", found.ranks[0].mean.transfer_s, 0, kNoise * lost_s);
  });
}

// The weights of resnet18 take long enough for one update to be told from what surrounds it.
TEST_P(StrategyPhasesTest, an_update_takes_as_long_wherever_it_happens) {
  if (GetParam().same_update.empty()) return;
  const Built resnet18{.model = "resnet18", .image_size = 32, .steps = 4};
  test::expect_once([&] {
    const double alone_s = train({"", GetParam().same_update, {}}, resnet18).breakdown.mean.optimizer_s;
    const double found_s = train(GetParam(), resnet18).breakdown.mean.optimizer_s;
    const double expected_s = GetParam().updates * alone_s;
    return apart("optimizer", found_s, expected_s, kNoise * expected_s);
  });
}

INSTANTIATE_TEST_SUITE_P(Strategies, StrategyPhasesTest, testing::ValuesIn([] {
                           std::vector<StrategyCase> all = strategies_that_communicate();
                           all.push_back(async_server());
                           return all;
                         }()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep
