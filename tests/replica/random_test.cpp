#include "lockstep/replica/random.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>

namespace lockstep::replica {
namespace {

TEST(StreamSeedTest, differs_in_every_input) {
  std::set<uint64_t> seeds;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const std::string purpose :
         {"", "image", "label", "conv1.weight", "conv1.bias", "layer1.0.conv1.weight"}) {
      for (uint64_t index = 0; index < 20; ++index) seeds.insert(stream_seed(seed, purpose, index));
    }
  }
  EXPECT_EQ(seeds.size(), 20 * 6 * 20);
}

/// A run is repeated by its seed, also by a later build: these values are a promise.
TEST(StreamSeedTest, stays_the_same) {
  EXPECT_EQ(stream_seed(1, "image", 0), 0x18a14218b68979a6);
  EXPECT_EQ(stream_seed(42, "layer1.0.conv1.weight", 7), 0x360727a0b7a52386);
}

at::Tensor draw(at::Generator generator) {
  return at::empty({100}).normal_(0, 1, generator);
}

TEST(StreamGeneratorTest, gives_each_stream_its_own_values) {
  EXPECT_TRUE(at::equal(draw(stream_generator(1, "image", 3)), draw(stream_generator(1, "image", 3))));
  EXPECT_FALSE(at::equal(draw(stream_generator(1, "image", 3)), draw(stream_generator(1, "image", 4))));
  EXPECT_FALSE(at::equal(draw(stream_generator(1, "image", 3)), draw(stream_generator(2, "image", 3))));
  EXPECT_FALSE(at::equal(draw(stream_generator(1, "image", 3)), draw(stream_generator(1, "label", 3))));
}

TEST(StreamGeneratorTest, leaves_the_process_wide_generator_alone) {
  const at::Tensor before = at::detail::getDefaultCPUGenerator().get_state();
  draw(stream_generator(1, "seen nowhere else", 0));
  EXPECT_TRUE(at::equal(at::detail::getDefaultCPUGenerator().get_state(), before));
}

}  // namespace
}  // namespace lockstep::replica
