// Every file of a fuzzer's corpus, in every build: what once went wrong stays mended.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/file.h"

#include "fuzz/reader.h"

namespace lockstep::fuzz {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> corpus() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(LOCKSTEP_CORPUS)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

class CorpusTest : public testing::TestWithParam<fs::path> {};

/// A file's name says what is expected of it: good_* is read, bad_* is refused, found_* (by a fuzzer) either.
TEST_P(CorpusTest, does_as_its_name_says) {
  const std::string name = GetParam().filename().string();
  const bool read = reads(read_file(GetParam()));
  if (name.starts_with("good_")) {
    EXPECT_TRUE(read);
  } else if (name.starts_with("bad_")) {
    EXPECT_FALSE(read);
  } else {
    EXPECT_TRUE(name.starts_with("found_")) << "no such kind of name";
  }
}

std::string name_of(const testing::TestParamInfo<fs::path>& file) {
  return file.param.stem().string();
}

INSTANTIATE_TEST_SUITE_P(LOCKSTEP_READER, CorpusTest, testing::ValuesIn(corpus()), name_of);

}  // namespace
}  // namespace lockstep::fuzz
