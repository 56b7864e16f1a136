#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace lockstep::topology {

/// A folder that stands for "/", with the system files that a test writes into it; removed at the end.
class FakeRoot : public testing::Test {
 protected:
  FakeRoot()
      : root_(std::filesystem::path(testing::TempDir()) /
              (std::string("topology_") + testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  ~FakeRoot() override { std::filesystem::remove_all(root_); }

  void write(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  std::filesystem::path root_;
};

}  // namespace lockstep::topology
