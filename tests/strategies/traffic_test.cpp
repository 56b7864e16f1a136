#include <algorithm>
#include <array>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/units.h"
#include "lockstep/strategies/parameter_shards.h"

#include "strategies/recording_communicator.h"
#include "strategies/trained_replica.h"

namespace lockstep {
namespace {

/// docs/strategies.md says what each strategy sends in a step; here the formulas are held against what was
/// issued.
struct Traffic {
  size_t messages = 0;
  size_t bytes = 0;

  bool operator==(const Traffic&) const = default;
};

void PrintTo(const Traffic& traffic, std::ostream* out) {
  *out << traffic.messages << " messages of together " << traffic.bytes << " bytes";
}

using TrafficByCall = std::map<std::string, Traffic>;

TrafficByCall sum_up(const std::vector<test::Call>& calls) {
  TrafficByCall sums;
  for (const test::Call& call : calls) {
    ++sums[call.name].messages;
    sums[call.name].bytes += call.bytes;
  }
  return sums;
}

constexpr int kTrafficSteps = 4;

struct ObservedTraffic {
  /// Counted over kTrafficSteps steps, without the first.
  TrafficByCall calls;
  TrafficByCall split_calls;
  std::vector<test::Call> in_order;
};

std::vector<ObservedTraffic> observe_traffic(const test::ReplicaChoice& choice, int ranks) {
  std::vector<ObservedTraffic> observed(static_cast<size_t>(ranks));
  test::with_thread_ranks(ranks, [&](comm::Communicator& communicator) {
    test::RecordingCommunicator recording(communicator);
    test::TrainedReplica replica = test::make_replica(choice, &recording);
    // The step loop's own barriers go to the communicator itself.
    replica.communicator = &communicator;
    // The second step may lay memory out anew.
    replica.train(2);
    recording.forget();
    replica.train(kTrafficSteps);
    ObservedTraffic& own = observed[static_cast<size_t>(communicator.rank())];
    own.in_order = recording.calls();
    own.calls = sum_up(own.in_order);
    own.split_calls = sum_up(recording.split_calls());
  });
  return observed;
}

constexpr double kBucketMb = 0.05;
/// lenet5's parameters.
constexpr size_t kParameters = 61706;
constexpr std::array<size_t, 10> kTensorSizes{150, 6, 2400, 16, 48000, 120, 10080, 84, 840, 10};

/// As many as it takes to hold so many elements in buckets of kBucketMb: the last of them is as large as the
/// others, which are full from the front.
size_t buckets_of(size_t elements, size_t multiple_of = 1) {
  const auto cap = static_cast<size_t>(kBucketMb * kMiB / 4) / multiple_of * multiple_of;
  return (elements + cap - 1) / cap;
}

class TrafficTest : public testing::TestWithParam<int> {
 protected:
  size_t ranks() const { return static_cast<size_t>(GetParam()); }
  static Traffic per_run(size_t messages, size_t bytes) {
    return {kTrafficSteps * messages, kTrafficSteps * bytes};
  }

  /// Of a unit with its padding.
  size_t bytes_of(size_t count) const { return 4 * ((count + ranks() - 1) / ranks() * ranks()); }

  /// Units of so many elements, each divided in buckets of kBucketMb and padded.
  Traffic in_units(const std::vector<size_t>& counts) const {
    Traffic sum;
    for (const size_t count : counts) {
      sum.messages += kTrafficSteps * buckets_of(bytes_of(count) / 4, ranks());
      sum.bytes += kTrafficSteps * bytes_of(count);
    }
    return sum;
  }

  std::vector<ObservedTraffic> observe_lenet5(const std::string& strategy,
                                              strategies::StrategyOptions options, int accumulate = 1) {
    options.bucket_mb = kBucketMb;
    return observe_traffic({.model = "lenet5",
                            .strategy = strategy,
                            .batch = 2,
                            .accumulate = accumulate,
                            .strategy_options = options},
                           GetParam());
  }
};

TEST_P(TrafficTest, replicated_all_reduces_every_bucket_once) {
  for (const bool overlap : {true, false}) {
    for (const ObservedTraffic& rank : observe_lenet5("replicated", {.overlap = overlap})) {
      EXPECT_EQ(rank.calls,
                (TrafficByCall{{"all_reduce", per_run(buckets_of(kParameters), 4 * kParameters)}}));
    }
  }
}

TEST_P(TrafficTest, a_narrow_wire_halves_the_bytes_and_accumulation_sends_once_for_all_batches) {
  for (const char* strategy : {"ddp", "replicated", "horovod", "bsp"}) {
    for (const strategies::Wire wire : {strategies::Wire::kFp16, strategies::Wire::kBf16}) {
      const auto wide = observe_lenet5(strategy, {.deterministic = true});
      for (const ObservedTraffic& rank : observe_lenet5(strategy, {.wire = wire, .deterministic = true}, 3)) {
        const Traffic expected = wide.front().calls.at("all_reduce");
        EXPECT_EQ(rank.calls.at("all_reduce"), (Traffic{expected.messages, expected.bytes / 2})) << strategy;
      }
    }
  }
}

TEST_P(TrafficTest, sharded_reduce_scatters_gradients_and_gathers_parameters) {
  const Traffic expected = in_units({11014, 48120, 2572});
  using strategies::Shard;
  for (const bool overlap : {true, false}) {
    for (const Shard shard : {Shard::kOptimizer, Shard::kGradients}) {
      for (const ObservedTraffic& rank : observe_lenet5("sharded", {.overlap = overlap, .shard = shard})) {
        EXPECT_EQ(rank.calls, (TrafficByCall{{"reduce_scatter", expected}, {"all_gather", expected}}));
      }
    }
  }
}

// A step gathers each unit before the forward pass and, unless it stayed, before the backward pass. After the
// last step all are gathered to be read, of which the first of the next one stay.
TEST_P(TrafficTest, sharded_parameters_are_gathered_for_both_passes) {
  const size_t last = bytes_of(2572), middle = bytes_of(48120), all = bytes_of(11014) + middle + last;
  for (const int ahead : {0, 1}) {
    const auto observed = observe_lenet5(
        "sharded", {.shard = strategies::Shard::kParameters, .unit_mb = kBucketMb, .prefetch_units = ahead});
    const size_t again = ahead == 0 ? middle + last : last;
    const size_t kept = ahead == 0 ? last : last + middle;
    for (const ObservedTraffic& rank : observed) {
      EXPECT_EQ(rank.calls.at("reduce_scatter"), in_units({11014, 48120, 2572}));
      EXPECT_EQ(rank.calls.at("all_gather").bytes, kTrafficSteps * (all + again) + all - kept) << ahead;
    }
  }
}

TEST_P(TrafficTest, parameter_server_reduces_to_owners_and_fetches_from_them) {
  // In bytes.
  std::vector<int64_t> tensors;
  for (const size_t elements : kTensorSizes) tensors.push_back(static_cast<int64_t>(4 * elements));
  std::vector<size_t> owned(ranks(), 0);
  const std::vector<int> owners = strategies::assign_owners(tensors, GetParam());
  for (size_t i = 0; i < tensors.size(); ++i) {
    owned[static_cast<size_t>(owners[i])] += static_cast<size_t>(tensors[i]);
  }
  size_t buckets = 0;
  for (const size_t bytes : owned) buckets += buckets_of(bytes / 4);

  const Traffic expected = per_run(buckets, 4 * kParameters);
  const std::vector<ObservedTraffic> shared_out = observe_lenet5("parameter_server", {});
  for (size_t rank = 0; rank < ranks(); ++rank) {
    EXPECT_EQ(shared_out[rank].calls, (TrafficByCall{{"reduce", expected}, {"broadcast", expected}}));
  }

  const Traffic at_rank_0 = per_run(buckets_of(kParameters), 4 * kParameters);
  const std::vector<ObservedTraffic> on_one = observe_lenet5(
      "parameter_server", {.overlap = false, .parameter_owners = strategies::ParameterOwners::kRank0});
  for (size_t rank = 0; rank < ranks(); ++rank) {
    EXPECT_EQ(on_one[rank].calls, (TrafficByCall{{"reduce", at_rank_0}, {"broadcast", at_rank_0}}));
  }
}

TEST_P(TrafficTest, asynchronous_workers_send_each_bucket_and_fetch_from_each_owner_once) {
  // Sum over all ranks of the bytes that leave one for another.
  size_t messages = 0;
  size_t bytes = 0;
  size_t buckets = 0;
  std::vector<int64_t> tensors;
  for (const size_t elements : kTensorSizes) tensors.push_back(static_cast<int64_t>(4 * elements));
  const std::vector<int> owners = strategies::assign_owners(tensors, GetParam());
  std::vector<size_t> owned(ranks(), 0);
  for (size_t i = 0; i < tensors.size(); ++i) owned[static_cast<size_t>(owners[i])] += kTensorSizes[i];
  for (const size_t elements : owned) buckets += buckets_of(elements);
  for (const ObservedTraffic& rank :
       observe_lenet5("parameter_server", {.consistency = strategies::Consistency::kAsync})) {
    EXPECT_TRUE(rank.calls.empty());
    if (!rank.split_calls.contains("send")) continue;
    messages += rank.split_calls.at("send").messages;
    bytes += rank.split_calls.at("send").bytes;
  }
  const size_t others = ranks() - 1;
  const size_t notices = kTrafficSteps * (others * buckets + others * ranks());
  // At the end each tells each owner that it is done.
  const size_t ends = others * ranks();
  EXPECT_EQ(messages, 2 * notices + ends);
  EXPECT_EQ(bytes, kTrafficSteps * 2 * others * 4 * kParameters + 24 * (notices + ends));
}

TEST_P(TrafficTest, bsp_exchanges_every_tensor_on_its_own) {
  using strategies::BspSync;
  using strategies::Exchange;
  size_t padded = 0;
  for (const size_t elements : kTensorSizes) padded += (elements + ranks() - 1) / ranks() * ranks();
  const Traffic barrier = per_run(1, 0);
  for (const BspSync sync : {BspSync::kCdd, BspSync::kAvg}) {
    for (const Exchange exchange : {Exchange::kAr, Exchange::kNccl32, Exchange::kNccl16}) {
      const size_t width = exchange == Exchange::kNccl16 ? 2 : 4;
      for (const ObservedTraffic& rank : observe_lenet5("bsp", {.exchange = exchange, .bsp_sync = sync})) {
        EXPECT_EQ(rank.calls,
                  (TrafficByCall{{"barrier", barrier},
                                 {"all_reduce", per_run(kTensorSizes.size(), width * kParameters)}}));
      }
    }
    for (const Exchange exchange : {Exchange::kAsa32, Exchange::kAsa16}) {
      const Traffic part = per_run(kTensorSizes.size(), (exchange == Exchange::kAsa16 ? 2 : 4) * padded);
      for (const ObservedTraffic& rank : observe_lenet5("bsp", {.exchange = exchange, .bsp_sync = sync})) {
        EXPECT_EQ(rank.calls,
                  (TrafficByCall{{"barrier", barrier}, {"all_to_all", part}, {"all_gather", part}}));
      }
    }
  }
}

TEST_P(TrafficTest, local_sgd_all_reduces_all_parameters_at_the_end_of_a_period) {
  for (const int period : {1, 2, 3}) {
    // Of the steps from 3 to 6.
    const size_t exchanges = period == 1 ? 4 : 2;
    for (const double outer_lr : {1.0, 0.7}) {
      for (const ObservedTraffic& rank :
           observe_lenet5("local_sgd", {.sync_every = period, .outer_lr = outer_lr})) {
        EXPECT_EQ(rank.calls, (TrafficByCall{{"all_reduce", {exchanges, exchanges * 4 * kParameters}}}));
      }
    }
  }
}

TEST_P(TrafficTest, horovod_sends_every_gradient_once_and_negotiates_by_bits) {
  // Whole tensors from the last to the first; one that is larger than a pack goes alone.
  constexpr double kFusionMb = 0.1;
  size_t packs = 0;
  size_t room = 0;
  for (const size_t elements : std::vector<size_t>(kTensorSizes.rbegin(), kTensorSizes.rend())) {
    if (elements > room) {
      ++packs;
      room = static_cast<size_t>(kFusionMb * kMiB / 4);
    }
    room -= std::min(room, elements);
  }
  for (const bool deterministic : {false, true}) {
    for (const ObservedTraffic& rank :
         observe_lenet5("horovod", {.fusion_mb = kFusionMb, .deterministic = deterministic})) {
      ASSERT_EQ(rank.calls.size(), 1u);
      const Traffic sent = rank.calls.at("all_reduce");
      EXPECT_EQ(sent.bytes, kTrafficSteps * 4 * kParameters);
      if (deterministic) {
        EXPECT_EQ(sent.messages, kTrafficSteps * packs);
      } else {
        EXPECT_GE(sent.messages, kTrafficSteps * packs);
        EXPECT_LE(sent.messages, kTrafficSteps * kTensorSizes.size());
      }
      // A bit for every tensor and one for what is new, as bytes; no names any more.
      ASSERT_EQ(rank.split_calls.size(), 1u);
      const Traffic negotiation = rank.split_calls.at("all_reduce");
      EXPECT_EQ(negotiation.bytes, negotiation.messages * (kTensorSizes.size() + 1));
      EXPECT_GE(negotiation.messages, size_t{kTrafficSteps});
      EXPECT_LE(negotiation.messages, kTrafficSteps * (kTensorSizes.size() * ranks()));
    }
  }
}

TEST(OwnersTest, the_next_tensor_goes_to_whoever_has_the_fewest_bytes) {
  EXPECT_THAT(strategies::assign_owners({100, 10, 20, 30, 50, 40}, 3),
              testing::ElementsAre(0, 1, 2, 1, 2, 1));
  EXPECT_THAT(strategies::assign_owners({5, 6}, 1), testing::ElementsAre(0, 0));
}

INSTANTIATE_TEST_SUITE_P(ranks, TrafficTest, testing::Values(1, 2, 3, 4, 7));

}  // namespace
}  // namespace lockstep
