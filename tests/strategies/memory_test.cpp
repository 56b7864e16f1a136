#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <utility>

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
      live_ += size;
      most_ = std::max(most_, live_);
    } else if (const auto known = blocks_.find(block); known != blocks_.end()) {
      live_ -= known->second;
      blocks_.erase(known);
    }
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t bytes() const {
    const std::lock_guard lock(mutex_);
    return live_;
  }
  /// The most since the last call.
  int64_t take_most() {
    const std::lock_guard lock(mutex_);
    return std::exchange(most_, live_);
  }

 private:
  mutable std::mutex mutex_;
  std::map<void*, int64_t> blocks_;
  int64_t live_ = 0, most_ = 0;
};

struct Observed {
  MemoryUse told;
  /// All that is still allocated after some steps, without the batches.
  int64_t kept = 0;
  /// The most that was allocated at a time in another step.
  int64_t most_in_a_step = 0;
};

train::RowPlan row_of(const std::string& strategy, int ranks, const strategies::StrategyOptions& options,
                      const std::string& model = "lenet5") {
  train::SweepOptions sweep;
  sweep.models = {model};
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
                              const strategies::StrategyOptions& options = {},
                              const std::string& model = "lenet5") {
  std::vector<Observed> observed(static_cast<size_t>(ranks));
  test::with_thread_ranks(ranks, [&](comm::Communicator& group) {
    const train::RowPlan row = row_of(strategy, ranks, options, model);
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
    Observed& own = observed[static_cast<size_t>(group.rank())];
    own = {trainee.memory(), live->bytes() - batches};
    // The step itself, without the end of the training, which gathers everything.
    auto& strategy = trainee.strategy();
    strategy.begin_step();
    live->take_most();
    const inputs::Batch batch = train::create_input(row, group.rank())->next();
    const models::Output output = trainee.model().forward(batch.images, {.training = true});
    strategy.before_backward(true);
    models::cross_entropy(output, batch.labels).backward();
    strategy.combine();
    strategy.apply();
    own.most_in_a_step = live->take_most();
    strategy.finish();
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

/// lenet5's units with the buckets of row_of(), each padded.
int64_t bytes_in_units(int ranks) {
  return 4 * (padded(11014, ranks) + padded(48120, ranks) + padded(2572, ranks));
}

TEST_P(MemoryTest, sharded_keeps_its_share_of_what_it_divides) {
  using strategies::Shard;
  const int64_t all = bytes_in_units(ranks()), own = all / ranks();
  expect_all("sharded", {.parameters = all, .gradients = all, .momenta = own});
  expect_all("sharded", {.parameters = all, .gradients = own, .momenta = own}, {.shard = Shard::kGradients});
  // All units are there to be read after the last step.
  for (const Observed& rank : observe("sharded", ranks(), {.shard = Shard::kParameters, .unit_mb = 0.05})) {
    EXPECT_EQ(rank.told.total(), 3 * own);
    EXPECT_GE(rank.kept, 3 * own + all);
    EXPECT_LT(rank.kept, 3 * own + all + 2048);
  }
}

// What is not released shows in what tensors have at a time.
TEST_P(MemoryTest, sharded_memory_is_released_within_a_step) {
  using strategies::Shard;
  std::map<Shard, int64_t> most, gathered;
  int64_t all = 0;
  for (const Shard shard : {Shard::kOptimizer, Shard::kGradients, Shard::kParameters}) {
    const auto observed =
        observe("sharded", ranks(), {.shard = shard, .unit_mb = 0.05, .prefetch_units = 0}, "resnet20");
    for (const Observed& rank : observed) {
      most[shard] = std::max(most[shard], rank.most_in_a_step);
      gathered[shard] = std::max(gathered[shard], rank.told.gathered);
      if (shard == Shard::kOptimizer) all = rank.told.parameters;
    }
  }
  EXPECT_EQ(gathered[Shard::kOptimizer], 0);
  EXPECT_LT(gathered[Shard::kGradients], all / 2);
  EXPECT_LT(gathered[Shard::kParameters], all * 3 / 4);
  const int64_t own = all / ranks(), of_autograd = all / 4;
  EXPECT_LT(most[Shard::kGradients],
            most[Shard::kOptimizer] - all + own + gathered[Shard::kGradients] + of_autograd);
  EXPECT_LT(most[Shard::kParameters],
            most[Shard::kOptimizer] - 2 * (all - own) + gathered[Shard::kParameters] + of_autograd);
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

INSTANTIATE_TEST_SUITE_P(ranks, MemoryTest, testing::Values(1, 2, 3, 4, 7));

TEST(StorageBytesTest, memory_that_several_tensors_share_counts_once) {
  const at::Tensor flat = train::create_input(row_of("ddp", 1, {}), 0)->next().images;
  EXPECT_EQ(replica::storage_bytes({flat, flat[0], flat[1], at::Tensor()}),
            static_cast<int64_t>(flat.nbytes()));
}

}  // namespace
}  // namespace lockstep
