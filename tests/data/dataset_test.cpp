#include "lockstep/data/dataset.h"

#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/encoded.h"
#include "data/files.h"
#include "data/messages.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class DatasetTest : public FolderTest {
 protected:
  std::shared_ptr<const Dataset> open(Split split = Split::kTraining) const {
    return open_dataset(folder_, split);
  }
  std::string refusal(Split split = Split::kTraining) const {
    return message_of([&] { open(split); });
  }
  static std::vector<uint8_t> read(const Dataset& dataset, int64_t sample, const ReadOptions& options) {
    std::vector<uint8_t> pixels(static_cast<size_t>(options.size) * static_cast<size_t>(options.size) *
                                static_cast<size_t>(options.channels));
    dataset.read(sample, options, pixels.data());
    return pixels;
  }

  void write_mnist() const {
    write("train-images-idx3-ubyte", idx_images(20, 8, 8));
    write("train-labels-idx1-ubyte", idx_labels(20, 10));
    write("t10k-images.idx3-ubyte", idx_images(7, 8, 8));
    write("t10k-labels.idx1-ubyte", idx_labels(7, 5));
  }
  void write_cifar(const std::string& below = "") const {
    for (int file = 1; file <= 5; ++file) {
      write(below + "data_batch_" + std::to_string(file) + ".bin", cifar10_records(3, file));
    }
    write(below + "test_batch.bin", cifar10_records(4, 0));
  }
  void write_images() const {
    write("train/dog/b.JPEG", jpeg_of(picture(60, 40)));
    write("train/dog/a.png", png_of(picture(30, 50)));
    write("train/dog/notes.txt", "not an image");
    write("train/cat/c.jpg", jpeg_of(picture(64, 64, 1)));
    write("val/dog/d.jpg", jpeg_of(picture(80, 60)));
  }
};

TEST_F(DatasetTest, idx_files_are_read_as_they_are) {
  write_mnist();
  const auto training = open();
  EXPECT_EQ(training->kind(), "MNIST");
  EXPECT_EQ(training->size(), 20);
  EXPECT_EQ(training->classes(), 10);
  EXPECT_EQ(training->label(13), 3);
  const std::vector<uint8_t> pixels = read(*training, 5, {.size = 8, .channels = 1, .augmentation = 1});
  for (size_t p = 0; p < 64; ++p) EXPECT_EQ(pixels[p], 35 + p);
  // As colour and larger.
  const std::vector<uint8_t> large = read(*training, 5, {.size = 16, .channels = 3});
  EXPECT_EQ(large[0], 35);
  EXPECT_EQ(large[1], 35);
  EXPECT_EQ(large.back(), 98);
  EXPECT_EQ(open(Split::kEvaluation)->size(), 7);
}

TEST_F(DatasetTest, damaged_idx_files_are_refused_by_name) {
  write_mnist();
  const std::string images = idx_images(20, 8, 8);
  write("train-images-idx3-ubyte", images.substr(0, images.size() - 1));
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("train-images-idx3-ubyte"), HasSubstr("1279 bytes"), HasSubstr("1280")));
  write("train-images-idx3-ubyte", images.substr(0, 9));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("train-images-idx3-ubyte"), HasSubstr("too short")));
  write("train-images-idx3-ubyte", idx_labels(20, 10));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("0x00000801"), HasSubstr("changed places")));
  write("train-images-idx3-ubyte", "\x1F\x8B and more");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("train-images-idx3-ubyte"), HasSubstr("gunzip")));
  write("train-images-idx3-ubyte", std::string("\0\0\x08\x03\0\0\0\x01\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 16));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("train-images-idx3-ubyte"), HasSubstr("4294967295 x 4294967295")));
  write("train-images-idx3-ubyte", idx_images(0, 8, 8));
  EXPECT_THAT(refusal(), HasSubstr("no image"));
  write("train-images-idx3-ubyte", idx_images(19, 8, 8));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("20 labels"), HasSubstr("19 images")));
  fs::remove(folder_ / "train-images-idx3-ubyte");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("train-images-idx3-ubyte"), HasSubstr("No such file")));
}

TEST_F(DatasetTest, cifar10_becomes_interleaved) {
  for (const char* below : {"", "cifar-10-batches-bin/"}) {
    fs::remove_all(folder_);
    write_cifar(below);
    const auto training = open();
    EXPECT_EQ(training->kind(), "CIFAR-10");
    EXPECT_EQ(training->size(), 15);
    EXPECT_EQ(training->classes(), 10);
    EXPECT_EQ(training->label(14), 7);
    const std::vector<uint8_t> pixels = read(*training, 4, {.size = 32});
    EXPECT_THAT(std::vector<uint8_t>(pixels.begin(), pixels.begin() + 4),
                testing::ElementsAre(11, 21, 31, 11));
    EXPECT_THAT(std::vector<uint8_t>(pixels.end() - 3, pixels.end()), testing::ElementsAre(42, 52, 62));
    EXPECT_EQ(open(Split::kEvaluation)->size(), 4);
  }
}

TEST_F(DatasetTest, cifar10_is_shifted_and_mirrored_for_training_alone) {
  write_cifar();
  const auto training = open();
  const std::vector<uint8_t> plain = read(*training, 0, {.size = 32});
  std::set<std::vector<uint8_t>> seen;
  bool has_border = false;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<uint8_t> sample = read(*training, 0, {.size = 32, .augmentation = seed});
    EXPECT_EQ(sample, read(*training, 0, {.size = 32, .augmentation = seed}));
    has_border = has_border || sample.front() == 0;
    seen.insert(sample);
  }
  EXPECT_GT(seen.size(), 10U);
  EXPECT_TRUE(has_border);
}

TEST_F(DatasetTest, damaged_cifar10_files_are_refused_by_name) {
  write_cifar();
  write("data_batch_3.bin", cifar10_records(3, 0).substr(1));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("data_batch_3.bin"), HasSubstr("9218 bytes"), HasSubstr("3073")));
  write("data_batch_3.bin", "");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("data_batch_3.bin"), HasSubstr("0 bytes")));
  std::string records = cifar10_records(3, 0);
  records[3073] = 10;
  write("data_batch_3.bin", records);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("data_batch_3.bin"), HasSubstr("label of image 1 is 10")));
  fs::remove(folder_ / "data_batch_3.bin");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("data_batch_3.bin"), HasSubstr("No such file")));
}

TEST_F(DatasetTest, folders_are_classes_in_the_order_of_their_names) {
  write_images();
  const auto training = open();
  EXPECT_EQ(training->kind(), "images");
  ASSERT_EQ(training->size(), 3);
  EXPECT_EQ(training->classes(), 2);
  EXPECT_EQ(training->label(0), 0);
  EXPECT_EQ(training->label(1), 1);
  EXPECT_EQ(training->label(2), 1);
  for (int64_t sample = 0; sample < 3; ++sample) {
    EXPECT_EQ(read(*training, sample, {.size = 24, .augmentation = 5}),
              read(*training, sample, {.size = 24, .augmentation = 5}));
    EXPECT_NE(read(*training, sample, {.size = 24, .augmentation = 5}),
              read(*training, sample, {.size = 24, .augmentation = 6}));
  }
  // dog is class 1 although val has no cat.
  const auto evaluation = open(Split::kEvaluation);
  ASSERT_EQ(evaluation->size(), 1);
  EXPECT_EQ(evaluation->classes(), 2);
  EXPECT_EQ(evaluation->label(0), 1);
}

TEST_F(DatasetTest, class_folders_without_train_above_them_serve_training) {
  write("cat/a.png", png_of(picture(8, 8)));
  write("dog/b.png", png_of(picture(8, 8)));
  EXPECT_EQ(open()->size(), 2);
  EXPECT_THAT(refusal(Split::kEvaluation), AllOf(HasSubstr("evaluate"), HasSubstr("val")));
}

TEST_F(DatasetTest, an_empty_or_unknown_class_is_refused_by_name) {
  write_images();
  fs::create_directories(folder_ / "train/emu");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("train/emu"), HasSubstr("no image")));
  fs::remove(folder_ / "train/emu");
  write("val/emu/e.jpg", jpeg_of(picture(8, 8)));
  EXPECT_THAT(refusal(Split::kEvaluation), AllOf(HasSubstr("val/emu"), HasSubstr("training images")));
  fs::remove_all(folder_ / "val");
  write("val/d.jpg", jpeg_of(picture(80, 60)));
  EXPECT_THAT(refusal(Split::kEvaluation), HasSubstr("/val' has no folder of a class"));
}

TEST_F(DatasetTest, a_damaged_image_is_refused_by_name_when_it_is_read) {
  write_images();
  write("train/dog/b.JPEG", jpeg_of(picture(60, 40)).substr(0, 600));
  const auto training = open();
  EXPECT_THAT(message_of([&] { read(*training, 2, {.size = 24}); }), HasSubstr("train/dog/b.JPEG"));
  fs::remove(folder_ / "train/dog/b.JPEG");
  EXPECT_THAT(message_of([&] { read(*training, 2, {.size = 24}); }), HasSubstr("train/dog/b.JPEG"));
}

TEST_F(DatasetTest, what_is_no_data_set_is_refused_with_what_would_be) {
  EXPECT_THAT(refusal(), AllOf(HasSubstr(folder_.string()), HasSubstr("IDX"), HasSubstr("JPEG")));
  write_cifar();
  write_mnist();
  EXPECT_THAT(refusal(), AllOf(HasSubstr("both"), HasSubstr("MNIST"), HasSubstr("CIFAR-10")));
  fs::remove_all(folder_);
  EXPECT_THAT(refusal(), HasSubstr("no folder"));
}

}  // namespace
}  // namespace lockstep::data
