#pragma once

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "scratch_folder.h"

namespace lockstep::data {

/// A test with a folder of its own, empty, removed at the end.
class FolderTest : public testing::Test {
 protected:
  /// Writes a file below the folder, and the folders that it takes.
  void write(const std::string& name, const std::string& bytes) const;

  test::ScratchFolder scratch_;
  std::filesystem::path folder_ = scratch_.path();
};

/// Files of `count` images of `width` x `height`, pixel p of image i being (i * 7 + p) % 256, and labels
/// i % classes.
std::string idx_images(int count, int width, int height);
std::string idx_labels(int count, int classes);

/// Records of CIFAR-10: label (first + i) % 10; red, green and blue are 10, 20 and 30 + i + the pixel's row.
std::string cifar10_records(int count, int first);

}  // namespace lockstep::data
