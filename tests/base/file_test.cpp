#include "lockstep/base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

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

TEST_F(FileTest, a_private_folder_is_nobody_elses) {
  const auto refusal = [](const fs::path& folder) -> std::string {
    try {
      make_private_folder(folder);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "made";
  };
  EXPECT_EQ(refusal(folder_ / "own"), "made");
  struct ::stat facts {};
  ASSERT_EQ(::stat((folder_ / "own").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0700U);
  EXPECT_EQ(refusal(folder_ / "own"), "made");
  ::chmod((folder_ / "own").c_str(), 0755);
  EXPECT_THAT(refusal(folder_ / "own"), HasSubstr("is not a folder of yours alone"));
  fs::create_directory(folder_ / "other");
  fs::permissions(folder_ / "other", fs::perms::owner_all);
  fs::create_directory_symlink(folder_ / "other", folder_ / "link");
  EXPECT_THAT(refusal(folder_ / "link"), HasSubstr("is not a folder of yours alone"));
  EXPECT_THAT(refusal(folder_ / "missing" / "own"), HasSubstr("cannot hold temporary files: No such file"));
}

TEST_F(FileTest, a_missing_folder_is_named) {
  try {
    check_outputs({{"--json", folder_ / "missing" / "a.json"}});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--json"));
    EXPECT_THAT(error.what(), HasSubstr("missing/a.json"));
    EXPECT_THAT(error.what(), HasSubstr("No such file or directory"));
  }
}

TEST_F(FileTest, checking_leaves_nothing_behind) {
  check_outputs({{"--json", folder_ / "a.json"}, {"--csv", "-"}, {"--trace", ""}});
  EXPECT_EQ(files(), 0u);
}

TEST_F(FileTest, a_folder_is_not_a_file) {
  EXPECT_THROW(check_outputs({{"--json", folder_}}), ConfigError);
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

std::string refusal(const std::vector<GivenFile>& outputs, const std::vector<GivenFile>& inputs = {}) {
  try {
    check_outputs(outputs, inputs);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_F(FileTest, an_output_is_neither_an_input_nor_another_output) {
  const fs::path a = folder_ / "a.json";
  EXPECT_THAT(refusal({{"--json", a}, {"--csv", folder_ / "." / "a.json"}}),
              HasSubstr("--json and --csv both write"));
  write_file_atomically(a, "measured");
  fs::create_symlink(a, folder_ / "link");
  EXPECT_THAT(refusal({{"-o", folder_ / "link"}}, {{"the file to show", a}}),
              HasSubstr("is the file to show too, which would be lost"));
  EXPECT_EQ(refusal({{"--json", a}, {"--csv", folder_ / "b.csv"}}, {{"--from", folder_ / "c"}}), "");
  EXPECT_EQ(read_file(a), "measured");
}

TEST_F(FileTest, links_and_permissions_stay) {
  const fs::path real = folder_ / "real", link = folder_ / "link";
  write_file_atomically(real, "old");
  fs::permissions(real, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("real", link);
  write_file_atomically(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_file(real), "new");
  EXPECT_EQ(fs::status(real).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(files(), 2u);
}

TEST_F(FileTest, a_link_that_somebody_planted_is_not_followed) {
  write_file_atomically(folder_ / "precious", "kept");
  // The name that a temporary file of this process had before names were random.
  fs::create_symlink("precious", folder_ / (".a.json." + std::to_string(::getpid()) + ".tmp"));
  write_file_atomically(folder_ / "a.json", "new");
  EXPECT_EQ(read_file(folder_ / "precious"), "kept");
}

TEST_F(FileTest, what_has_no_end_is_not_read) {
  EXPECT_THROW(read_file("/dev/zero"), Error);
  const fs::path pipe = folder_ / "pipe.jpg";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  // Nobody writes to it: it is empty, and does not block.
  EXPECT_EQ(read_file(pipe), "");
  // An error of reading is no end of the file.
  EXPECT_THROW(read_file("/proc/self/mem"), Error);
}

}  // namespace
}  // namespace lockstep
