#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>

#include "lockstep/base/error.h"
#include "lockstep/feed/message.h"
#include "lockstep/feed/sender.h"
#include "lockstep/inputs/input.h"

namespace lockstep::inputs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

InputOptions staged_options() {
  at::set_num_threads(1);
  InputOptions options;
  options.batch = 12;
  options.image_size = 8;
  options.classes = 10;
  return options;
}

std::unique_ptr<Input> open_input(const std::string& name, const InputOptions& options) {
  return registry().get(name).create(options);
}

/// Batch `number` of a rank alone, in the order of the batch, channels last.
void expect_is(const Batch& batch, int64_t number, const InputOptions& options) {
  const feed::RandomBatches batches(
      {.batch = options.batch, .channels = options.channels, .image_size = options.image_size},
      options.classes, options.seed);
  std::vector<uint8_t> pixels(static_cast<size_t>(batches.shape().bytes()));
  std::vector<int64_t> labels(static_cast<size_t>(options.batch));
  batches.make(number, pixels.data(), labels.data());
  const at::Tensor images = batch.images.permute({0, 2, 3, 1}).contiguous();
  const auto* values = images.const_data_ptr<float>();
  for (size_t i = 0; i < pixels.size(); ++i) {
    ASSERT_NEAR(values[i], (float(pixels[i]) / 255 - feed::kNoiseMean) / feed::kNoiseDeviation, 1e-5);
  }
  for (size_t i = 0; i < labels.size(); ++i) ASSERT_EQ(batch.labels[int64_t(i)].item<int64_t>(), labels[i]);
}

class MadeTest : public testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  std::unique_ptr<Input> create(InputOptions options) {
    options.workers = std::get<1>(GetParam());
    options.prefetch = 3;
    return open_input(std::get<0>(GetParam()), options);
  }
};

TEST_P(MadeTest, gives_new_random_images_in_every_step_normalised_in_either_memory_format) {
  InputOptions options = staged_options();
  for (const auto format : {at::MemoryFormat::ChannelsLast, at::MemoryFormat::Contiguous}) {
    options.memory_format = format;
    const std::unique_ptr<Input> input = create(options);
    for (int64_t number = 0; number < 12; ++number) {
      const Batch& batch = input->next();
      ASSERT_THAT(batch.images.sizes(), ElementsAre(12, 3, 8, 8));
      ASSERT_TRUE(batch.images.is_contiguous(format));
      expect_is(batch, number, options);
    }
  }
}

TEST_P(MadeTest, leaves_out_exactly_what_it_is_told_at_once) {
  const std::unique_ptr<Input> input = create(staged_options());
  input->skip(int64_t{1} << 40);
  input->skip(5);
  expect_is(input->next(), (int64_t{1} << 40) + 5, staged_options());
}

TEST_P(MadeTest, gives_the_ranks_together_what_one_rank_gets_alone) {
  for (const int ranks : {2, 3}) {
    const std::unique_ptr<Input> whole = create(staged_options());
    std::vector<std::unique_ptr<Input>> parts;
    InputOptions options = staged_options();
    options.ranks = ranks;
    options.batch /= ranks;
    for (options.rank = 0; options.rank < ranks; ++options.rank) parts.push_back(create(options));
    for (int step = 0; step < 6; ++step) {
      std::vector<at::Tensor> images, labels;
      for (const auto& part : parts) {
        const Batch& batch = part->next();
        EXPECT_EQ(batch.first_sample, int64_t(images.size()) * options.batch);
        images.push_back(batch.images);
        labels.push_back(batch.labels);
      }
      const Batch& joint = whole->next();
      EXPECT_TRUE(at::equal(at::cat(images), joint.images));
      EXPECT_TRUE(at::equal(at::cat(labels), joint.labels));
    }
  }
}

/// A batch that is kept keeps its values.
TEST_P(MadeTest, a_batch_that_was_kept_is_not_written_to_again) {
  const std::unique_ptr<Input> input = create(staged_options());
  const Batch kept = input->next();
  for (int i = 0; i < 5; ++i) input->next();
  expect_is(kept, 0, staged_options());
}

TEST_P(MadeTest, ends_at_any_time) {
  create(staged_options());
  create(staged_options())->next();
}

INSTANTIATE_TEST_SUITE_P(Inputs, MadeTest,
                         testing::Combine(testing::Values("host", "queue"), testing::Values(0, 1, 3)));

TEST(StagedInputTest, counts_how_its_queues_are_used) {
  InputOptions options = staged_options();
  options.prefetch = 2;
  const std::unique_ptr<Input> input = open_input("queue", options);
  for (int i = 0; i < 20; ++i) {
    input->next();
    // So that producers have to wait for room.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const std::vector<feed::QueueUse> queues = input->queues();
  ASSERT_EQ(queues.size(), 2U);
  EXPECT_EQ(queues[0].name, "made");
  EXPECT_EQ(queues[0].capacity, 2);
  EXPECT_EQ(queues[1].name, "staged");
  EXPECT_EQ(queues[1].capacity, 1);
  EXPECT_EQ(queues[1].batches, 19);
  EXPECT_GT(queues[0].full, 0);
  EXPECT_EQ(queues[1].images_per_batch, 12);
  EXPECT_EQ(queues[1].bytes_per_batch, 12 * 3 * 8 * 8);
  EXPECT_GE(queues[1].elapsed_s, 0.018);
  EXPECT_TRUE(open_input("device", options)->queues().empty());
}

/// An address of its own; its file is removed at the end.
std::string free_address() {
  static int count = 0;
  return "ipc://" + (std::filesystem::temp_directory_path() /
                     ("lockstep_inputs_" + std::to_string(::getpid()) + "_" + std::to_string(count++)))
                        .string();
}

InputOptions zmq_options() {
  InputOptions options = staged_options();
  options.address = free_address();
  options.timeout_s = 20;
  options.prefetch = 2;
  return options;
}

/// Batches of lockstep's own random ones, of this many images, from one number to another.
void send(const InputOptions& options, int64_t batch, int64_t first, int64_t end) {
  const feed::RandomBatches batches(
      {.batch = batch, .channels = options.channels, .image_size = options.image_size}, options.classes,
      options.seed);
  feed::Sender sender({.addresses = {options.address}, .prefetch = 2, .timeout_s = 20});
  for (int64_t number = first; number < end; ++number) {
    uint8_t* message = sender.begin(feed::message_bytes(batches.shape()));
    const feed::MessageParts parts = feed::begin_message(batches.shape(), message);
    batches.make(number, parts.pixels, parts.labels);
    ASSERT_EQ(sender.send(), feed::Sent::kSent);
  }
  sender.finish();
}

TEST(ZmqInputTest, gives_what_is_sent_in_order_and_once_though_producers_come_and_go) {
  const InputOptions options = zmq_options();
  const std::unique_ptr<Input> input = open_input("zmq", options);
  for (int64_t first = 0; first < 30; first += 10) {
    std::jthread producer([&, first] { send(options, options.batch, first, first + 10); });
    for (int64_t number = first; number < first + 10; ++number) expect_is(input->next(), number, options);
  }
  const std::vector<feed::QueueUse> queues = input->queues();
  ASSERT_EQ(queues.size(), 2U);
  EXPECT_EQ(queues[0].name, "received");
  EXPECT_EQ(queues[0].capacity, 2);
  EXPECT_EQ(queues[0].batches, 29);
}

TEST(ZmqInputTest, a_message_that_does_not_fit_is_named_after_those_that_do) {
  const InputOptions options = zmq_options();
  const std::unique_ptr<Input> input = open_input("zmq", options);
  std::jthread producer([&] {
    send(options, options.batch, 0, 2);
    send(options, 7, 0, 1);
  });
  input->next();
  input->next();
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_THAT([&] { input->next(); },
                ThrowsMessage<Error>(HasSubstr("message 3 at " + options.address +
                                               " has 7 images of 8 x 8 x 3, expected 12 images")));
  }
}

TEST(ZmqInputTest, without_a_producer_it_ends_with_an_error_or_whenever_it_is_left) {
  InputOptions options = zmq_options();
  options.timeout_s = 0.05;
  EXPECT_THAT([&] { open_input("zmq", options)->next(); },
              ThrowsMessage<Error>(HasSubstr("no batch has come to " + options.address)));
  // The address is free again at once; nothing is sent, and nobody waits.
  options.timeout_s = 20;
  const std::unique_ptr<Input> input = open_input("zmq", options);
  EXPECT_THAT([&] { open_input("zmq", options); }, ThrowsMessage<ConfigError>(HasSubstr("is in use")));
}

TEST(ZmqInputTest, an_end_while_it_waits_for_batches_waits_no_longer) {
  const InputOptions options = zmq_options();
  const std::unique_ptr<Input> input = open_input("zmq", options);
  std::jthread producer([&] { send(options, options.batch, 0, 1); });
  input->next();
}

}  // namespace
}  // namespace lockstep::inputs
