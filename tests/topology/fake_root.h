#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "scratch_folder.h"

namespace lockstep::topology {

/// A folder that stands for "/", with the system files that a test writes into it; removed at the end.
class FakeRoot : public testing::Test {
 protected:
  void write(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  test::ScratchFolder scratch_;
  std::filesystem::path root_ = scratch_.path();
};

}  // namespace lockstep::topology
