#include "lockstep/results/files/partial_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
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
  PartialFile file(folder_ / "a.json");
  EXPECT_EQ(files(), 0u);
  RunRecord record = small_record();
  const results::Run last = record.runs.back();
  record.runs.pop_back();
  file.update(record);
  EXPECT_EQ(read_record(folder_ / "a.json.partial").runs.size(), 2u);
  record.runs.push_back(last);
  file.update(record);
  EXPECT_EQ(read_record(folder_ / "a.json.partial").runs.size(), 3u);
  EXPECT_THAT(read_record(folder_ / "a.json.partial").incomplete, HasSubstr("has not ended"));
  EXPECT_EQ(files(), 1u) << "the file itself is not there before the end";
}

TEST_F(PartialFileTest, the_reason_for_an_early_end_is_kept) {
  PartialFile file(folder_ / "a.json");
  RunRecord record = small_record();
  record.incomplete = "rank 1 died";
  file.update(record);
  EXPECT_EQ(read_record(file.partial_path()).incomplete, "rank 1 died");
}

TEST_F(PartialFileTest, at_the_end_only_the_file_itself_is_left) {
  PartialFile file(folder_ / "a.json");
  file.update(small_record());
  file.finish(small_record());
  EXPECT_EQ(files(), 1u);
  EXPECT_EQ(read_record(folder_ / "a.json").incomplete, "");
}

TEST_F(PartialFileTest, beside_a_device_nothing_is_kept) {
  PartialFile file("/dev/null");
  EXPECT_TRUE(file.partial_path().empty());
  file.update(small_record());
  file.finish(small_record());
  EXPECT_FALSE(fs::exists("/dev/null.partial"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(PartialFileTest, a_folder_that_is_gone_is_an_error_that_names_the_file) {
  PartialFile file(folder_ / "gone" / "a.json");
  try {
    file.update(small_record());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("gone/a.json.partial"));
  }
}

}  // namespace
}  // namespace lockstep::results
