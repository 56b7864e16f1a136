#include "lockstep/inputs/dataset.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>

#include "lockstep/base/error.h"

#include "scratch_folder.h"

namespace lockstep::inputs {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// The digits: 1,500 to train with, 297 to evaluate with.
InputOptions digits(int64_t batch) {
  at::set_num_threads(1);
  InputOptions options;
  options.batch = batch;
  options.channels = 1;
  options.image_size = 28;
  options.classes = 10;
  options.data = LOCKSTEP_DIGITS;
  return options;
}

std::unique_ptr<Input> open_input(const InputOptions& options) {
  return registry().get("dataset").create(options);
}

std::vector<std::unique_ptr<Input>> create_ranks(InputOptions options, int ranks) {
  std::vector<std::unique_ptr<Input>> all;
  options.batch /= ranks;
  options.ranks = ranks;
  for (options.rank = 0; options.rank < ranks; ++options.rank) {
    options.workers = 1 + options.rank % 3;
    options.prefetch = 1 + options.rank;
    options.memory_format =
        options.rank % 2 == 0 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    all.push_back(open_input(options));
  }
  return all;
}

class DatasetSplitTest : public testing::TestWithParam<int> {};

/// Over the end of an epoch: 1,500 samples are 3 batches of 420, then the next epoch begins.
TEST_P(DatasetSplitTest, gives_the_ranks_together_what_one_rank_gets_alone) {
  const std::unique_ptr<Input> whole = open_input(digits(420));
  const std::vector<std::unique_ptr<Input>> parts = create_ranks(digits(420), GetParam());
  for (int step = 0; step < 5; ++step) {
    SCOPED_TRACE(step);
    std::vector<at::Tensor> images, labels;
    int64_t samples = 0;
    for (const auto& part : parts) {
      EXPECT_EQ(part->batches_per_epoch(), 3);
      const Batch& batch = part->next();
      EXPECT_EQ(batch.first_sample, samples);
      samples += batch.labels.numel();
      images.push_back(batch.images);
      labels.push_back(batch.labels);
    }
    const Batch& joint = whole->next();
    EXPECT_TRUE(at::equal(at::cat(images), joint.images));
    EXPECT_TRUE(at::equal(at::cat(labels), joint.labels));
  }
}

TEST_P(DatasetSplitTest, an_evaluation_has_every_sample_once_and_in_order_whatever_the_ranks) {
  InputOptions options = digits(84);
  options.evaluation = true;
  const int ranks = GetParam();
  const std::vector<std::unique_ptr<Input>> parts = create_ranks(options, ranks);
  InputOptions at_once = digits(297);
  at_once.evaluation = true;
  const Batch joint = open_input(at_once)->next();
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<at::Tensor> images, labels;
    for (int64_t step = 0; step < parts.front()->batches_per_epoch(); ++step) {
      for (const auto& part : parts) {
        if (step >= part->batches_per_epoch()) continue;
        const Batch& batch = part->next();
        images.push_back(batch.images);
        labels.push_back(batch.labels);
      }
    }
    EXPECT_TRUE(at::equal(at::cat(images), joint.images));
    EXPECT_TRUE(at::equal(at::cat(labels), joint.labels));
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, DatasetSplitTest, testing::Values(1, 2, 3, 4, 7));

TEST(DatasetInputTest, shuffles_every_epoch_and_follows_the_seed) {
  const std::unique_ptr<Input> input = open_input(digits(1500));
  const Batch first = input->next();
  const Batch second = input->next();
  EXPECT_FALSE(at::equal(first.labels, second.labels));
  // 1,500 samples are all of them: the same ones, in another order.
  EXPECT_TRUE(at::equal(first.labels.bincount(), second.labels.bincount()));
  InputOptions other = digits(1500);
  other.seed = 2;
  EXPECT_FALSE(at::equal(open_input(other)->next().labels, first.labels));
}

TEST(DatasetInputTest, is_normalised_to_float_in_the_memory_format_asked_for) {
  InputOptions options = digits(50);
  options.channels = 3;
  for (const auto format : {at::MemoryFormat::ChannelsLast, at::MemoryFormat::Contiguous}) {
    options.memory_format = format;
    const std::unique_ptr<Input> input = open_input(options);
    const Batch& batch = input->next();
    EXPECT_THAT(batch.images.sizes(), testing::ElementsAre(50, 3, 28, 28));
    EXPECT_TRUE(batch.images.is_contiguous(format));
    EXPECT_EQ(batch.images.scalar_type(), at::kFloat);
    EXPECT_EQ(batch.labels.scalar_type(), at::kLong);
    // Black and white by MNIST's mean and deviation.
    EXPECT_NEAR(batch.images.min().item<float>(), -0.1307 / 0.3081, 1e-5);
    EXPECT_NEAR(batch.images.max().item<float>(), (1 - 0.1307) / 0.3081, 1e-5);
  }
}

TEST(DatasetInputTest, goes_on_where_another_ended) {
  const std::unique_ptr<Input> all = open_input(digits(700));
  for (int step = 0; step < 3; ++step) all->next();
  const std::unique_ptr<Input> rest = open_input(digits(700));
  rest->skip(3);
  EXPECT_TRUE(at::equal(rest->next().images, all->next().images));
}

TEST(DatasetInputTest, refuses_what_does_not_suit_before_anything_is_read) {
  const auto check = [](InputOptions options) { check_dataset(std::vector{std::move(options)}); };
  check(digits(1500));
  EXPECT_THAT([&] { check(digits(1501)); },
              ThrowsMessage<ConfigError>(HasSubstr("1500 samples are too few")));
  InputOptions options = digits(10);
  options.classes = 9;
  EXPECT_THAT([&] { check(options); }, ThrowsMessage<ConfigError>(HasSubstr("has 10 classes")));
  options.data = "";
  EXPECT_THAT([&] { check(options); }, ThrowsMessage<ConfigError>(HasSubstr("--data FOLDER")));
  options.data = "/no/such/folder";
  EXPECT_THAT([&] { check(options); }, ThrowsMessage<ConfigError>(HasSubstr("/no/such/folder")));
}

TEST(DatasetInputTest, a_workers_error_arrives_as_it_was_thrown_and_ends_nothing_else) {
  const test::ScratchFolder folder;
  for (const char* name : {"cat/a.jpg", "dog/b.png"}) {
    fs::create_directories((folder.path() / name).parent_path());
    std::ofstream(folder.path(name)) << "no image";
  }
  InputOptions options = digits(2);
  options.data = folder.path().string();
  const std::unique_ptr<Input> input = open_input(options);
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_THAT([&] { input->next(); }, ThrowsMessage<Error>(HasSubstr("neither a JPEG nor a PNG")));
  }
}

}  // namespace
}  // namespace lockstep::inputs
