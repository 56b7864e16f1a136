#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include <gtest/gtest.h>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include "lockstep/replica/memory_use.h"
#include "lockstep/strategies/parameter_shards.h"
#include "lockstep/train/rows/row_trainee.h"

#include "strategies/trained_replica.h"

namespace lockstep {
namespace {

using replica::MemoryUse;
using strategies::Exchange;

/// lenet5's parameters.
constexpr std::array<int64_t, 10> kTensors{150, 6, 2400, 16, 48000, 120, 10080, 84, 840, 10};
constexpr int64_t kP = 4 * 61706;

/// Sees every block that this thread takes from Torch's allocator and gives back.
class LiveBytes final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* block, int64_t size, size_t /*total*/, size_t /*reserved*/,
                         c10::Device /*device*/) override {
    const std::lock_guard lock(mutex_);
    if (size > 0) {
      blocks_[block] = size;
    } else {
      blocks_.erase(block);
    }
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t bytes() const {
    const std::lock_guard lock(mutex_);
    int64_t sum = 0;
    for (const auto& [ignored, size] : blocks_) sum += size;
    return sum;
  }

 private:
  mutable std::mutex mutex_;
  std::map<void*, int64_t> blocks_;
};

struct Observed {
  MemoryUse told;
  /// All that is still allocated after some steps, without the batches.
  int64_t kept = 0;
};

train::RowPlan row_of(const std::string& strategy, int ranks, const strategies::StrategyOptions& options) {
  train::SweepOptions sweep;
  sweep.models = {"lenet5"};
  sweep.batches = {2};
  sweep.ranks = {ranks};
  sweep.strategies = {strategy};
  sweep.controls = false;
  train::RowPlan row = train::plan_rows(sweep).front();
  row.parsed_options = options;
  row.bucket_mb = 0.05;
  return row;
}

std::vector<Observed> observe(const std::string& strategy, int ranks,
                              const strategies::StrategyOptions& options = {}) {
  std::vector<Observed> observed(static_cast<size_t>(ranks));
  test::with_thread_ranks(ranks, [&](comm::Communicator& group) {
    const train::RowPlan row = row_of(strategy, ranks, options);
    int64_t batches = 0;
    {
      const auto live = std::make_shared<LiveBytes>();
      const c10::DebugInfoGuard watched(c10::DebugInfoKind::PROFILER_STATE, live);
      const auto input = train::create_input(row, group.rank());
      batches = live->bytes();
    }
    const auto live = std::make_shared<LiveBytes>();
    const c10::DebugInfoGuard watched(c10::DebugInfoKind::PROFILER_STATE, live);
    train::RowTrainee trainee(row, &group);
    launch::Progress progress;
    for (int step = 0; step < 4; ++step) trainee.train_one_more(progress);
    observed[static_cast<size_t>(group.rank())] = {trainee.memory(), live->bytes() - batches};
  });
  return observed;
}

int64_t padded(int64_t count, int64_t multiple_of) {
  return (count + multiple_of - 1) / multiple_of * multiple_of;
}

/// Bytes of lenet5's parameters, shared out among the ranks; [rank].
std::vector<int64_t> owned_bytes(int ranks) {
  std::vector<int64_t> bytes;
  for (const int64_t count : kTensors) bytes.push_back(4 * count);
  std::vector<int64_t> owned(static_cast<size_t>(ranks), 0);
  const std::vector<int> owners = strategies::assign_owners(bytes, ranks);
  for (size_t i = 0; i < bytes.size(); ++i) owned[static_cast<size_t>(owners[i])] += bytes[i];
  return owned;
}

class MemoryTest : public testing::TestWithParam<int> {
 protected:
  int ranks() const { return GetParam(); }

  /// Expects the report that docs/strategies.md promises, and nothing else is kept: a second copy of the
  /// gradients would be kP. (c10d's Reducer has a few small tensors of its own.)
  void expect_all(const std::string& strategy, const MemoryUse& expected,
                  const strategies::StrategyOptions& options = {}) {
    for (const Observed& rank : observe(strategy, ranks(), options)) expect(strategy, rank, expected);
  }

  static void expect(const std::string& strategy, const Observed& rank, const MemoryUse& expected) {
    EXPECT_EQ(rank.told.parameters, expected.parameters) << strategy;
    EXPECT_EQ(rank.told.gradients, expected.gradients) << strategy;
    EXPECT_EQ(rank.told.momenta, expected.momenta) << strategy;
    EXPECT_EQ(rank.told.buffers, expected.buffers) << strategy;
    EXPECT_GE(rank.kept, expected.total()) << strategy;
    EXPECT_LT(rank.kept, expected.total() + 1024) << strategy;
  }
};

TEST_P(MemoryTest, parameters_gradients_and_momenta_are_kept_once) {
  const char* alone = ranks() == 1 ? "single" : "independent";
  for (const char* strategy : {alone, "ddp", "replicated", "bsp", "horovod"}) {
    expect_all(strategy, {.parameters = kP, .gradients = kP, .momenta = kP});
  }
}

TEST_P(MemoryTest, local_sgd_keeps_an_anchor_and_outer_momenta_where_it_has_an_outer_step) {
  expect_all("local_sgd", {.parameters = kP, .gradients = kP, .momenta = kP}, {.sync_every = 2});
  expect_all("local_sgd", {.parameters = kP, .gradients = kP, .momenta = kP, .buffers = kP},
             {.sync_every = 2, .outer_lr = 0.7});
  expect_all("local_sgd", {.parameters = kP, .gradients = kP, .momenta = 2 * kP, .buffers = kP},
             {.sync_every = 2, .outer_momentum = 0.9});
}

TEST_P(MemoryTest, sharded_keeps_its_share_of_the_momenta) {
  const int64_t all = 4 * padded(kP / 4, ranks());
  expect_all("sharded", {.parameters = all, .gradients = all, .momenta = all / ranks()});
}

TEST_P(MemoryTest, a_parameter_server_has_momenta_of_what_it_owns) {
  const std::vector<int64_t> owned = owned_bytes(ranks());
  const std::vector<Observed> shared_out = observe("parameter_server", ranks());
  for (size_t rank = 0; rank < owned.size(); ++rank) {
    expect("shared out", shared_out[rank], {.parameters = kP, .gradients = kP, .momenta = owned[rank]});
  }
  const std::vector<Observed> on_one =
      observe("parameter_server", ranks(), {.parameter_owners = strategies::ParameterOwners::kRank0});
  for (size_t rank = 0; rank < on_one.size(); ++rank) {
    expect("rank 0", on_one[rank], {.parameters = kP, .gradients = kP, .momenta = rank == 0 ? kP : 0});
  }
}

TEST_P(MemoryTest, an_asynchronous_server_keeps_values_reply_and_arrival_of_what_it_owns) {
  const std::vector<int64_t> owned = owned_bytes(ranks());
  const std::vector<Observed> found =
      observe("parameter_server", ranks(), {.consistency = strategies::Consistency::kAsync});
  for (size_t rank = 0; rank < owned.size(); ++rank) {
    const Observed& own = found[rank];
    EXPECT_EQ(own.told.parameters, kP);
    EXPECT_EQ(own.told.gradients, kP);
    EXPECT_EQ(own.told.momenta, owned[rank]);
    // For others: a reply, and room for the largest bucket.
    EXPECT_GT(own.told.buffers, ranks() == 1 ? 0 : 2 * owned[rank]);
    EXPECT_LE(own.told.buffers, ranks() == 1 ? owned[rank] : 3 * owned[rank]);
    EXPECT_GE(own.kept, own.told.total());
    EXPECT_LT(own.kept, own.told.total() + 1024);
  }
}

TEST_P(MemoryTest, data_parallel_has_the_parameters_of_all_devices_in_one_process) {
  const train::RowPlan row = row_of("data_parallel", ranks(), {});
  train::RowTrainee trainee(row, nullptr);
  launch::Progress progress;
  trainee.train_one_more(progress);
  EXPECT_EQ(trainee.memory(), (MemoryUse{.parameters = ranks() * kP, .gradients = kP, .momenta = kP}));
}

TEST_P(MemoryTest, exchanges_through_copies_keep_room_for_the_largest_tensor) {
  const int64_t largest = std::ranges::max(kTensors);
  // The sum grows from tensor to tensor as the copies do, and all of them end at the largest.
  const int64_t part = padded(largest, ranks()) / ranks();
  const std::map<Exchange, int64_t> buffers{{Exchange::kAr, 4 * largest},
                                            {Exchange::kNccl16, 2 * largest},
                                            {Exchange::kAsa32, 2 * 4 * part * ranks() + 4 * part},
                                            {Exchange::kAsa16, 2 * 2 * part * ranks() + 4 * part}};
  for (const auto& [exchange, bytes] : buffers) {
    expect_all("bsp", {.parameters = kP, .gradients = kP, .momenta = kP, .buffers = bytes},
               {.exchange = exchange});
  }
}

INSTANTIATE_TEST_SUITE_P(ranks, MemoryTest, testing::Values(1, 2, 4));

TEST(StorageBytesTest, memory_that_several_tensors_share_counts_once) {
  const at::Tensor flat = train::create_input(row_of("ddp", 1, {}), 0)->next().images;
  EXPECT_EQ(replica::storage_bytes({flat, flat[0], flat[1], at::Tensor()}),
            static_cast<int64_t>(flat.nbytes()));
}

}  // namespace
}  // namespace lockstep
