#include <numeric>

#include <gmock/gmock.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>

#include "lockstep/inputs/dataset.h"

#include "data/files.h"
#include "data/messages.h"
#include "data/tensor_bytes.h"

namespace lockstep::inputs {
namespace {

using data::message_of;
using testing::HasSubstr;

constexpr int64_t kSamples = 12;

/// A folder of `image`, samples of 3x2x2 whose values count from 0, and `label`, the samples' numbers.
class StoredTest : public data::FolderTest {
 protected:
  StoredTest() {
    std::vector<float> values(kSamples * 12);
    std::iota(values.begin(), values.end(), 0.0F);
    std::vector<int64_t> labels(kSamples);
    std::iota(labels.begin(), labels.end(), 0);
    write("image.npy", data::npy("<f4", "12, 3, 2, 2", data::bytes_of(values)));
    write("labels.safetensors",
          data::safetensors_with(R"({"label": {"dtype": "I64", "shape": [12], "data_offsets": [0, 96]}})",
                                 data::bytes_of(labels)));
  }

  InputOptions options() const {
    InputOptions all;
    all.batch = 2;
    all.data = folder_.string();
    all.described = {{.name = "image", .shape = {3, 2, 2}, .channels_last = true},
                     {.name = "label", .shape = {}, .type = at::kLong, .type_name = "int64"}};
    return all;
  }

  static std::unique_ptr<Input> create(const InputOptions& options) {
    return registry().get("dataset").create(options);
  }
  std::string refusal(const InputOptions& options) const {
    return message_of([&] { check_dataset({&options, 1}); });
  }
};

TEST_F(StoredTest, gives_every_sample_once_per_epoch_with_what_belongs_to_it) {
  const std::unique_ptr<Input> input = create(options());
  ASSERT_EQ(input->batches_per_epoch(), 6);
  std::vector<int64_t> first_order;
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<int64_t> order;
    for (int i = 0; i < 6; ++i) {
      const Batch& batch = input->next();
      ASSERT_EQ(batch.tensors().size(), 2U);
      EXPECT_TRUE(batch.images.is_contiguous(at::MemoryFormat::ChannelsLast));
      for (int64_t sample = 0; sample < 2; ++sample) {
        const int64_t label = batch.labels.const_data_ptr<int64_t>()[sample];
        order.push_back(label);
        EXPECT_TRUE(at::equal(batch.images[sample].contiguous(),
                              at::arange(label * 12, label * 12 + 12, at::kFloat).view({3, 2, 2})));
      }
    }
    EXPECT_THAT(order, testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
    if (epoch == 0) first_order = order;
    EXPECT_EQ(order == first_order, epoch == 0);
  }
  EXPECT_EQ(input->queues().front().bytes_per_batch, 2 * (48 + 8));
}

TEST_F(StoredTest, gives_the_ranks_together_what_one_rank_gets_alone) {
  InputOptions whole = options();
  whole.batch = 6;
  const std::unique_ptr<Input> alone = create(whole);
  std::vector<std::unique_ptr<Input>> parts;
  for (int rank = 0; rank < 3; ++rank) {
    InputOptions part = options();
    part.rank = rank;
    part.ranks = 3;
    part.workers = rank + 1;
    parts.push_back(create(part));
  }
  for (int step = 0; step < 4; ++step) {
    const Batch& joint = alone->next();
    for (const auto& part : parts) {
      const Batch& batch = part->next();
      EXPECT_TRUE(at::equal(batch.labels, joint.labels.narrow(0, batch.first_sample, 2)));
    }
  }
}

TEST_F(StoredTest, skipped_batches_are_those_that_would_have_come) {
  const std::unique_ptr<Input> all = create(options());
  const std::unique_ptr<Input> later = create(options());
  later->skip(8);
  for (int i = 0; i < 8; ++i) all->next();
  EXPECT_TRUE(at::equal(all->next().labels, later->next().labels));
}

TEST_F(StoredTest, facts_change_with_the_data) {
  const std::string before = look_at_dataset(options()).text;
  EXPECT_THAT(before, testing::StartsWith("tensors, 12 samples, first and last #"));
  std::vector<float> values(kSamples * 12, 1.0F);
  write("image.npy", data::npy("<f4", "12, 3, 2, 2", data::bytes_of(values)));
  EXPECT_NE(look_at_dataset(options()).text, before);
}

TEST_F(StoredTest, tensors_that_do_not_suit_the_network_are_refused) {
  InputOptions changed = options();
  changed.described[0].name = "picture";
  EXPECT_THAT(refusal(changed),
              HasSubstr("no tensor 'picture', which the network takes; It has image, label."));
  changed = options();
  changed.described[1].type_name = "int32";
  EXPECT_THAT(refusal(changed), HasSubstr("has label as int64, but the network takes int32"));
  changed = options();
  changed.described[0].shape = {3, 4, 4};
  EXPECT_THAT(refusal(changed),
              HasSubstr("image in samples of shape [3, 2, 2], but the network takes [3, 4, 4]"));
  changed = options();
  changed.batch = 13;
  EXPECT_THAT(refusal(changed), HasSubstr("12"));
  changed = options();
  changed.data.clear();
  EXPECT_THAT(refusal(changed), HasSubstr("needs --data FOLDER"));
  write("image.npy", data::npy("<f4", "11, 3, 2, 2", std::string(11 * 48, '\0')));
  EXPECT_THAT(refusal(options()), HasSubstr("has 12 samples of label, but '"));
}

TEST_F(StoredTest, a_file_that_shrinks_ends_the_training_with_its_name) {
  const std::unique_ptr<Input> input = create(options());
  write("image.npy", "");
  EXPECT_THAT(message_of([&] {
                for (int i = 0; i < 100; ++i) input->next();
              }),
              HasSubstr("image.npy' has become shorter"));
}

TEST(PlaceSampleTest, turns_planes_into_pixels_where_the_layout_asks_for_it) {
  const Description described{.name = "x", .shape = {2, 1, 3}, .type = at::kShort, .channels_last = true};
  EXPECT_EQ(described.bytes_per_sample(), 12);
  const at::Tensor batch = empty_batch(described, 2);
  const std::string sample = data::bytes_of<int16_t>({1, 2, 3, 4, 5, 6});
  place_sample(described, sample, 0, batch);
  place_sample(described, sample, 1, batch);
  const auto* values = batch.const_data_ptr<int16_t>();
  EXPECT_THAT(std::vector(values, values + 12), testing::ElementsAre(1, 4, 2, 5, 3, 6, 1, 4, 2, 5, 3, 6));
}

}  // namespace
}  // namespace lockstep::inputs
