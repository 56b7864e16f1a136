#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>

#include "lockstep/base/error.h"
#include "lockstep/strategies/parameter_shards.h"

#include "train/host_accelerator.h"

namespace lockstep::strategies {
namespace {

const replica::SgdOptions kOptimizer{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01};
constexpr replica::Range kOwned{2, 40};
const std::vector<replica::Range> kBuckets{{2, 9}, {9, 40}};

/// A replica of 48 values, of which a shard owns some.
struct Sharded {
  Sharded() { at::set_num_threads(1); }

  void give_gradients(const at::Tensor& gradients) { memory.gradients({0, 48}).copy_(gradients); }
  at::Tensor values() const { return memory.values({0, 48}).clone(); }

  replica::Parameters parameters = [] {
    replica::Parameters made(1, at::MemoryFormat::Contiguous);
    made.add("one", {6, 4}, replica::Init::normal(1));
    made.add("two", {24}, replica::Init::normal(1));
    return made;
  }();
  replica::FlatMemory memory{parameters, {0, 1}};
};

void apply_all(HostShard& shard, bool first_step) {
  for (const replica::Range& bucket : kBuckets) shard.take_gradients(bucket);
  shard.apply(kOptimizer, first_step);
}

TEST(HostShardTest, updates_what_it_owns_as_flat_memory_does_and_nothing_else) {
  test::HostAccelerator accelerator;
  Sharded here, there;
  HostShard shard(there.memory, kOwned, accelerator);
  for (int step = 0; step < 3; ++step) {
    const at::Tensor gradients = at::rand({48});
    here.give_gradients(gradients);
    there.give_gradients(gradients);
    for (const replica::Range& bucket : kBuckets) here.memory.apply(bucket, kOptimizer, step == 0);
    apply_all(shard, step == 0);
    EXPECT_TRUE(at::equal(here.values(), there.values())) << "after step " << step;
  }
  EXPECT_FALSE(at::equal(there.values(), Sharded().values()));
  EXPECT_EQ(shard.momentum_bytes(), 4 * kOwned.count());
  EXPECT_EQ(shard.buffer_bytes(), 8 * kOwned.count());
}

TEST(HostShardTest, goes_on_from_what_another_saved) {
  test::HostAccelerator accelerator;
  Sharded first, second;
  HostShard shard(first.memory, kOwned, accelerator);
  HostShard restored(second.memory, kOwned, accelerator);
  first.give_gradients(at::rand({48}));
  apply_all(shard, true);
  replica::State state;
  shard.save(state);
  second.memory.values({0, 48}).copy_(first.values());
  restored.restore(state);
  const at::Tensor gradients = at::rand({48});
  first.give_gradients(gradients);
  second.give_gradients(gradients);
  apply_all(shard, false);
  apply_all(restored, false);
  EXPECT_TRUE(at::equal(first.values(), second.values()));
}

}  // namespace
}  // namespace lockstep::strategies
