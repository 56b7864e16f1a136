// Every file of the fuzzers' corpora, in every build: what once went wrong stays mended.

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/file.h"

#include "fuzz/reader.h"

namespace lockstep::fuzz {
namespace {

namespace fs = std::filesystem;

/// By the folder of their corpus.
const std::map<std::string, bool (*)(std::string_view)> kReaders{
    {"batch_message", &reads_batch_message}, {"collectives_text", &reads_collectives_text},
    {"image_file", &reads_image_file},       {"network_file", &reads_network_file},
    {"result_file", &reads_result_file},     {"sample_file", &reads_sample_file},
    {"tensor_file", &reads_tensor_file},     {"trace_file", &reads_trace_file}};

std::vector<fs::path> corpus() {
  std::vector<fs::path> files;
  for (const auto& [folder, reader] : kReaders) {
    for (const auto& entry : fs::directory_iterator(fs::path(LOCKSTEP_FUZZ_CORPUS) / folder))
      files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

class CorpusTest : public testing::TestWithParam<fs::path> {};

/// A file's name says what is expected of it: good_* is read, bad_* is refused, found_* (by a fuzzer) either.
TEST_P(CorpusTest, does_as_its_name_says) {
  const std::string name = GetParam().filename().string();
  const bool read = kReaders.at(GetParam().parent_path().filename())(read_file(GetParam()));
  if (name.starts_with("good_")) {
    EXPECT_TRUE(read);
  } else if (name.starts_with("bad_")) {
    EXPECT_FALSE(read);
  } else {
    EXPECT_TRUE(name.starts_with("found_")) << "no such kind of name";
  }
}

std::string name_of(const testing::TestParamInfo<fs::path>& file) {
  return file.param.parent_path().filename().string() + "_" + file.param.stem().string();
}

INSTANTIATE_TEST_SUITE_P(All, CorpusTest, testing::ValuesIn(corpus()), name_of);

}  // namespace
}  // namespace lockstep::fuzz
