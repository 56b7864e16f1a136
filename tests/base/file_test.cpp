#include "lockstep/base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FileTest : public testing::Test {
 protected:
  FileTest()
      : folder_(fs::path(testing::TempDir()) /
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~FileTest() override { fs::remove_all(folder_); }

  size_t files() const { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {})); }

  fs::path folder_;
};

TEST_F(FileTest, a_written_file_reads_back_and_leaves_no_other) {
  write_file_atomically(folder_ / "a.json", "first");
  write_file_atomically(folder_ / "a.json", "second");
  EXPECT_EQ(read_file(folder_ / "a.json"), "second");
  EXPECT_EQ(files(), 1u);
}

TEST_F(FileTest, a_missing_folder_is_named) {
  try {
    check_writable(folder_ / "missing" / "a.json", "--json");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--json"));
    EXPECT_THAT(error.what(), HasSubstr("missing/a.json"));
    EXPECT_THAT(error.what(), HasSubstr("No such file or directory"));
  }
}

TEST_F(FileTest, checking_leaves_nothing_behind) {
  check_writable(folder_ / "a.json", "--json");
  EXPECT_EQ(files(), 0u);
}

TEST_F(FileTest, a_folder_is_not_a_file) {
  EXPECT_THROW(check_writable(folder_, "--json"), ConfigError);
  EXPECT_THROW(read_file(folder_), Error);
}

TEST_F(FileTest, a_full_disk_is_said) {
  try {
    write_file_atomically("/dev/full", "text");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("No space left on device"));
  }
}

}  // namespace
}  // namespace lockstep
