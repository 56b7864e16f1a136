#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/results/files/record_json.h"

#include "cli/program.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kDigits = LOCKSTEP_SOURCE_DIR "/data/digits";

test::Finished bench_on(const std::string& folder, const std::vector<std::string>& more) {
  std::vector<std::string> command{"lockstep", "bench", "--model", "lenet5",  "--threads", "1",
                                   "--steps",  "20",    "--input", "dataset", "--data",    folder};
  command.insert(command.end(), more.begin(), more.end());
  return test::run(command);
}

/// Two epochs on each rank: the digits are 1,500, and a step takes 128 of them.
TEST(DatasetBenchTest, real_data_are_trained_on_and_learned) {
  const test::ScratchFolder folder;
  const test::Finished bench = bench_on(kDigits, {"--batch", "64", "--ranks", "2", "--warmup", "3", "--lr",
                                                  "0.05", "--no-controls", "--json", folder.path("a.json")});
  ASSERT_EQ(bench.exit_code, 0) << bench.error;
  const results::RunRecord record = results::read_record(folder.path("a.json"));
  for (const results::Run& run : record.runs) {
    EXPECT_EQ(run.input, "dataset");
    EXPECT_LT(run.loss_last, 0.8 * run.loss_first) << run.strategy;
  }
}

TEST(DatasetBenchTest, what_cannot_be_is_refused_before_it_is_started) {
  const auto refusal = [](const std::string& folder, const std::vector<std::string>& more) {
    const test::Finished bench = bench_on(folder, more);
    EXPECT_EQ(bench.exit_code, 2) << bench.error;
    EXPECT_EQ(bench.output, "");
    return bench.error;
  };
  EXPECT_THAT(refusal(kDigits, {"--batch", "751", "--ranks", "1,2"}),
              HasSubstr("1500 samples are too few for 2 ranks"));
  EXPECT_THAT(refusal("/no/such/folder", {}), HasSubstr("there is no folder '/no/such/folder'"));
  EXPECT_THAT(refusal(LOCKSTEP_SOURCE_DIR "/docs", {}), HasSubstr("holds no data set"));
  const test::Finished without = test::run({"lockstep", "bench", "--input", "dataset"});
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_THAT(without.error, HasSubstr("--data FOLDER"));
  const test::Finished unused = test::run({"lockstep", "bench", "--data", kDigits});
  EXPECT_EQ(unused.exit_code, 2);
  EXPECT_THAT(unused.error, HasSubstr("Add --input dataset"));
}

/// test::run checks that no rank is left behind.
TEST(DatasetBenchTest, a_damaged_image_ends_the_run_and_is_named) {
  const test::ScratchFolder folder;
  for (int i = 0; i < 8; ++i) {
    const fs::path image = folder.path("images/cat/" + std::to_string(i) + ".jpg");
    fs::create_directories(image.parent_path());
    std::ofstream(image) << "\xFF\xD8 no more";
  }
  const test::Finished bench = bench_on(folder.path("images"), {"--batch", "4", "--ranks", "2"});
  EXPECT_EQ(bench.exit_code, 1);
  EXPECT_THAT(bench.error, HasSubstr(".jpg' is not a whole JPEG image"));
}

}  // namespace
}  // namespace lockstep
