#include "lockstep/results/files/partial_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/results/files/record_json.h"

#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class PartialFileTest : public testing::Test {
 protected:
  PartialFileTest()
      : folder_(fs::path(testing::TempDir()) /
                (std::string("partial_") + testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~PartialFileTest() override { fs::remove_all(folder_); }

  size_t files() const { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {})); }

  fs::path folder_;
};

TEST_F(PartialFileTest, after_every_row_it_is_a_whole_record_that_says_it_is_not_complete) {
  PartialFile file(folder_ / "a.json", PartialFile::place_for(folder_ / "a.json"));
  EXPECT_EQ(files(), 0u);
  RunRecord record = small_record();
  const results::Run last = record.runs.back();
  record.runs.pop_back();
  file.update(record);
  EXPECT_EQ(read_record(folder_ / "a.json").runs.size(), 2u);
  record.runs.push_back(last);
  file.update(record);
  EXPECT_EQ(read_record(folder_ / "a.json").runs.size(), 3u);
  EXPECT_EQ(read_record(folder_ / "a.json").incomplete, kNotEnded);
  EXPECT_EQ(files(), 1u);
}

TEST_F(PartialFileTest, an_older_result_stays_until_all_is_measured) {
  const fs::path path = folder_ / "a.json";
  write_file_atomically(path, "older");
  PartialFile file(path, PartialFile::place_for(path));
  file.update(small_record());
  EXPECT_EQ(read_file(path), "older");
  EXPECT_EQ(read_record(folder_ / "a.json.partial").incomplete, kNotEnded);
  file.finish(small_record());
  EXPECT_EQ(read_record(path).incomplete, "");
  EXPECT_EQ(files(), 1u);
}

TEST_F(PartialFileTest, an_empty_file_is_no_result) {
  write_file_atomically(folder_ / "a.json", "");
  EXPECT_EQ(PartialFile::place_for(folder_ / "a.json"), folder_ / "a.json");
}

TEST_F(PartialFileTest, the_reason_for_an_early_end_is_kept) {
  PartialFile file(folder_ / "a.json", folder_ / "a.json.partial");
  RunRecord record = small_record();
  record.incomplete = "rank 1 died";
  file.update(record);
  EXPECT_EQ(read_record(file.place()).incomplete, "rank 1 died");
}

TEST_F(PartialFileTest, at_the_end_only_the_file_itself_is_left) {
  PartialFile file(folder_ / "a.json", folder_ / "a.json.partial");
  file.update(small_record());
  file.finish(small_record());
  EXPECT_EQ(files(), 1u);
  EXPECT_EQ(read_record(folder_ / "a.json").incomplete, "");
}

TEST_F(PartialFileTest, beside_a_device_nothing_is_kept) {
  EXPECT_TRUE(PartialFile::place_for("/dev/null").empty());
  PartialFile file("/dev/null", {});
  file.update(small_record());
  file.finish(small_record());
  EXPECT_FALSE(fs::exists("/dev/null.partial"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(PartialFileTest, a_folder_that_is_gone_is_an_error_that_names_the_file) {
  const fs::path path = folder_ / "gone" / "a.json";
  PartialFile file(path, PartialFile::place_for(path));
  try {
    file.update(small_record());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("gone/a.json"));
  }
}

}  // namespace
}  // namespace lockstep::results
