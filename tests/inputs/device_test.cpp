#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>

#include "lockstep/base/error.h"
#include "lockstep/inputs/input.h"

namespace lockstep::inputs {
namespace {

InputOptions small_options() {
  InputOptions options;
  options.batch = 12;
  options.image_size = 8;
  options.classes = 10;
  return options;
}

std::unique_ptr<Input> create(const InputOptions& options) {
  return registry().get("device").create(options);
}

class SplitTest : public testing::TestWithParam<int> {};

/// Through two rotations, so that a rotation whose length depends on the batch would show.
TEST_P(SplitTest, gives_the_ranks_together_what_one_rank_gets_alone) {
  const int ranks = GetParam();
  const std::unique_ptr<Input> whole = create(small_options());
  std::vector<std::unique_ptr<Input>> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    InputOptions options = small_options();
    options.rank = rank;
    options.ranks = ranks;
    options.batch /= ranks;
    options.memory_format = rank % 2 == 0 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    parts.push_back(create(options));
  }
  for (int step = 0; step < 9; ++step) {
    SCOPED_TRACE(step);
    std::vector<at::Tensor> images;
    std::vector<at::Tensor> labels;
    int64_t samples = 0;
    for (const auto& part : parts) {
      const Batch& batch = part->next();
      EXPECT_EQ(batch.first_sample, samples);
      samples += batch.labels.numel();
      images.push_back(batch.images);
      labels.push_back(batch.labels);
    }
    const Batch& joint = whole->next();
    EXPECT_EQ(joint.first_sample, 0);
    EXPECT_TRUE(at::equal(at::cat(images), joint.images));
    EXPECT_TRUE(at::equal(at::cat(labels), joint.labels));
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, SplitTest, testing::Values(1, 2, 3, 4, 12));

TEST(DeviceInputTest, gives_every_sample_values_of_its_own_until_the_rotation_ends) {
  const std::unique_ptr<Input> input = create(small_options());
  std::vector<at::Tensor> samples;
  for (int step = 0; step < 4; ++step) {
    for (const at::Tensor& image : input->next().images.unbind()) samples.push_back(image);
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(at::equal(samples[i], samples[j])) << i << " and " << j;
  }
  EXPECT_TRUE(at::equal(input->next().images[0], samples[0]));
}

TEST(DeviceInputTest, makes_normal_images_and_every_label) {
  InputOptions options = small_options();
  options.batch = 500;
  const std::unique_ptr<Input> input = create(options);
  const Batch& batch = input->next();
  const auto values = static_cast<double>(batch.images.numel());
  EXPECT_NEAR(batch.images.mean().item<double>(), 0, 5 / std::sqrt(values));
  EXPECT_NEAR(batch.images.std().item<double>(), 1, 5 / std::sqrt(2 * values));
  // 50 of each class are expected, give or take 7.
  const at::Tensor counts = batch.labels.bincount();
  ASSERT_EQ(counts.numel(), options.classes);
  EXPECT_GT(counts.min().item<int64_t>(), 50 - 5 * 7);
  EXPECT_LT(counts.max().item<int64_t>(), 50 + 5 * 7);
}

TEST(DeviceInputTest, keeps_shape_type_and_memory_format) {
  InputOptions options = small_options();
  for (const auto format : {at::MemoryFormat::ChannelsLast, at::MemoryFormat::Contiguous}) {
    options.memory_format = format;
    const std::unique_ptr<Input> input = create(options);
    const Batch& batch = input->next();
    EXPECT_THAT(batch.images.sizes(), testing::ElementsAre(12, 3, 8, 8));
    EXPECT_TRUE(batch.images.is_contiguous(format));
    EXPECT_EQ(batch.images.scalar_type(), at::kFloat);
    EXPECT_THAT(batch.labels.sizes(), testing::ElementsAre(12));
    EXPECT_EQ(batch.labels.scalar_type(), at::kLong);
  }
}

TEST(DeviceInputTest, follows_the_seed) {
  InputOptions options = small_options();
  const std::unique_ptr<Input> one = create(options);
  options.seed = 2;
  const std::unique_ptr<Input> two = create(options);
  EXPECT_FALSE(at::equal(one->next().images, two->next().images));
  EXPECT_FALSE(at::equal(one->next().labels, two->next().labels));
}

TEST(InputsTest, offer_the_nearest_names) {
  EXPECT_THAT([] { registry().get("devise"); },
              testing::ThrowsMessage<ConfigError>(testing::HasSubstr("device")));
}

}  // namespace
}  // namespace lockstep::inputs
