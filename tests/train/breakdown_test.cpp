#include <cmath>
#include <mutex>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/measure/phases.h"
#include "lockstep/train/step/clock_sync.h"
#include "lockstep/train/step/traced_communicator.h"

#include "strategies/trained_replica.h"
#include "train/busy_machine.h"
#include "train/slow_link.h"

namespace lockstep {
namespace {

using measure::Breakdown;
using test::sleep_s;
using test::SlowLink;

/// Takes a known time more for every batch.
class DelayedInput final : public inputs::Input {
 public:
  DelayedInput(std::unique_ptr<inputs::Input> real, double delay_s)
      : real_(std::move(real)), delay_s_(delay_s) {}

  const inputs::Batch& next() override {
    sleep_s(delay_s_);
    return real_->next();
  }

 private:
  std::unique_ptr<inputs::Input> real_;
  double delay_s_;
};

struct Disturbance {
  int slow_rank = -1;
  double input_delay_s = 0;
  double s_per_byte = 0;
};

struct Training {
  std::string strategy = "ddp";
  int batch = 2;
  strategies::StrategyOptions options;
  int accumulate = 1;
};

/// Three ranks with lenet5, whose gradients fit into one bucket of the default size.
Breakdown break_down_disturbed(const Disturbance& disturbance, const Training& training = {}) {
  std::mutex mutex;
  std::vector<measure::RankStamps> ranks(3);
  test::with_thread_ranks(3, [&](comm::Communicator& group) {
    SlowLink link(group, {.s_per_byte = disturbance.s_per_byte});
    train::TracedCommunicator tracer(link);
    const train::ClockOffset clock = train::estimate_clock_offset(group);
    test::TrainedReplica replica = test::make_replica({.model = "lenet5",
                                                       .strategy = training.strategy,
                                                       .batch = training.batch,
                                                       .strategy_options = training.options},
                                                      &tracer);
    tracer.forget_stamps();
    if (group.rank() == disturbance.slow_rank) {
      replica.input = std::make_unique<DelayedInput>(std::move(replica.input), disturbance.input_delay_s);
    }
    launch::Progress progress;
    train::StepLoopResult result = train::run_steps(
        {.model = *replica.model,
         .input = *replica.input,
         .strategy = *replica.strategy,
         .communicator = &group,
         .stamp_phases = true,
         .tracer = &tracer},
        {.pacing = {.warmup_steps = 3, .steps = 10}, .accumulate = training.accumulate}, progress);
    const std::lock_guard lock(mutex);
    ranks[static_cast<size_t>(group.rank())] = {std::move(result.stamps), clock.offset_s, clock.error_s};
  });
  return measure::break_down(ranks);
}

/// The difference from the expectation as text; empty: none.
std::string unlike(const char* what, double value, double expected, double tolerance) {
  if (std::abs(value - expected) <= tolerance) return "";
  return fmt::format("{} is {:.5f} s instead of {:.5f} +- {:.5f}; ", what, value, expected, tolerance);
}

TEST(BreakdownTest, a_slowed_rank_is_that_much_waiting_on_the_others_and_is_named) {
  test::expect_once([] {
    const Breakdown found = break_down_disturbed({.slow_rank = 1, .input_delay_s = 0.03});
    EXPECT_EQ(found.steps, 10);
    // The time that the slow rank really lost, by its own stamps.
    const double lost_s = found.ranks[1].mean.input_s - found.ranks[0].mean.input_s;
    const double tolerance_s = 0.25 * lost_s;
    return std::string(found.straggler == 1 ? "" : "rank 1 is not named; ") +
           (lost_s >= 0.03 ? "" : "rank 1 lost less than its delay; ") +
           unlike("rank 0's waiting", found.ranks[0].mean.waiting_s, lost_s, tolerance_s) +
           unlike("rank 2's waiting", found.ranks[2].mean.waiting_s, lost_s, tolerance_s) +
           unlike("rank 1's waiting", found.ranks[1].mean.waiting_s, 0, tolerance_s) +
           (found.ranks[1].processor.before_s < lost_s ? "" : "sleeping counts as processor time; ");
  });
}

TEST(BreakdownTest, processor_time_is_within_the_time_of_its_phases) {
  const Breakdown found = break_down_disturbed({});
  for (const measure::RankBreakdown& rank : found.ranks) {
    EXPECT_GT(rank.processor.before_s, 0);
    EXPECT_LE(rank.processor.before_s, 1.01 * (rank.mean.step_s - rank.mean.backward_s));
    EXPECT_GT(rank.processor.backward_s, 0);
    EXPECT_LE(rank.processor.backward_s, 1.01 * (rank.mean.backward_s + rank.mean.exposed_s()));
    EXPECT_GT(rank.processor.optimizer_s, 0);
    EXPECT_LE(rank.processor.optimizer_s, 1.01 * rank.mean.optimizer_s + 1e-5);
  }
}

TEST(BreakdownTest, a_slow_link_is_that_much_transfer) {
  test::expect_once([] {
    constexpr double kSecondsPerByte = 120e-9;
    const Breakdown found = break_down_disturbed({.s_per_byte = kSecondsPerByte});
    EXPECT_EQ(found.ranks[0].buckets.size(), 1u);
    const double known_s = kSecondsPerByte * static_cast<double>(found.ranks[0].buckets[0].bytes);
    EXPECT_GT(known_s, 0.025);
    EXPECT_GE(found.mean.transfer_s + found.mean.waiting_s, 0.98 * known_s);
    return unlike("transfer", found.mean.transfer_s, known_s, 0.25 * known_s) +
           unlike("waiting", found.mean.waiting_s, 0, 0.25 * known_s);
  });
}

/// Exposed communication if buckets take as long as in `alone`, but are ready as in `overlapped`.
double predicted_exposed_s(const measure::RankBreakdown& overlapped, const measure::RankBreakdown& alone) {
  double ended_s = 0;
  for (size_t i = 0; i < overlapped.buckets.size(); ++i) {
    const double took_s = alone.buckets[i].ended_s - alone.buckets[i].started_s;
    ended_s = std::max(ended_s, overlapped.buckets[i].ready_s) + took_s;
  }
  return ended_s - overlapped.buckets.back().ready_s;
}

// Backward takes some milliseconds, the five buckets 25 ms, most of it for the second linear layer in the
// middle.
TEST(BreakdownTest, without_overlap_all_communication_is_exposed_and_with_it_as_the_buckets_predict) {
  const Disturbance slow_link{.s_per_byte = 100e-9};
  // One at a time: how long two that share a link take is not to be had from those that do not.
  Training training{.strategy = "replicated", .batch = 48, .options = {.bucket_mb = 0.05, .in_flight = 1}};
  test::expect_once([&] {
    training.options.overlap = false;
    const Breakdown alone = break_down_disturbed(slow_link, training);
    training.options.overlap = true;
    const Breakdown overlapped = break_down_disturbed(slow_link, training);
    EXPECT_EQ(overlapped.ranks[0].buckets.size(), alone.ranks[0].buckets.size());
    EXPECT_GT(overlapped.ranks[0].buckets.size(), 3u);
    const double predicted_s = predicted_exposed_s(overlapped.ranks[0], alone.ranks[0]);
    const bool shrank = overlapped.mean.exposed_s() < alone.mean.exposed_s();
    return std::string(shrank ? "" : "as much is exposed with overlap; ") +
           unlike("exposed alone", alone.mean.exposed_s(), alone.communication_s,
                  (test::quiet_machine() ? 0.05 : 0.3) * alone.communication_s) +
           unlike("exposed", overlapped.ranks[0].mean.exposed_s(), predicted_s,
                  (test::quiet_machine() ? 0.25 : 0.5) * predicted_s);
  });
}

TEST(BreakdownTest, phases_of_accumulated_batches_are_those_of_all_of_them) {
  const Disturbance slow_input{.slow_rank = 0, .input_delay_s = 0.01};
  const Breakdown found = break_down_disturbed(slow_input, {.strategy = "replicated", .accumulate = 3});
  EXPECT_GE(found.ranks[0].mean.input_s, 0.03);
  for (const measure::RankBreakdown& rank : found.ranks) {
    const measure::PhaseTimes& mean = rank.mean;
    EXPECT_NEAR(
        mean.input_s + mean.forward_s + mean.backward_s + mean.exposed_s() + mean.optimizer_s + mean.other_s,
        mean.step_s, 1e-9);
    EXPECT_GT(mean.backward_s, 0);
    EXPECT_EQ(rank.buckets.size(), 1u);
  }
}

TEST(BreakdownTest, the_phases_of_every_rank_sum_to_its_step) {
  const Breakdown found = break_down_disturbed({});
  for (const measure::RankBreakdown& rank : found.ranks) {
    const measure::PhaseTimes& mean = rank.mean;
    const double sum_s = mean.input_s + mean.forward_s + mean.backward_s + mean.waiting_s + mean.transfer_s +
                         mean.optimizer_s + mean.other_s;
    EXPECT_NEAR(sum_s, mean.step_s, 1e-9);
    EXPECT_GT(mean.forward_s, 0);
    EXPECT_GT(mean.backward_s, 0);
    // Ranks of one process have one clock.
    EXPECT_EQ(rank.clock_offset_s, 0);
    EXPECT_EQ(rank.clock_error_s, 0);
  }
}

TEST(ClockSyncTest, another_hosts_clock_is_found_within_the_error) {
  std::mutex mutex;
  std::vector<train::ClockOffset> found(3);
  test::with_thread_ranks(3, [&](comm::Communicator& group) {
    // Rank 1 is on another host, whose clock began 1000 s earlier.
    train::SteadyClock clock = train::SteadyClock::of_system();
    if (group.rank() == 1) clock = {.now_s = [] { return now_s() + 1000; }, .identity = clock.identity + 1};
    const train::ClockOffset offset = train::estimate_clock_offset(group, clock);
    const std::lock_guard lock(mutex);
    found[static_cast<size_t>(group.rank())] = offset;
  });
  EXPECT_NEAR(found[1].offset_s, 1000, found[1].error_s);
  EXPECT_GT(found[1].error_s, 0);
  EXPECT_LT(found[1].error_s, 0.1);
  EXPECT_EQ(found[2].offset_s, 0);
}

}  // namespace
}  // namespace lockstep
