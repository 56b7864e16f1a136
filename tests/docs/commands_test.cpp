// The lockstep commands of the documents are run as they stand there, measurements with --dry-run; results
// that they read are a golden one.

#include <algorithm>
#include <sstream>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

#include "cli/program.h"
#include "docs/document.h"

namespace lockstep::docs {
namespace {

/// The words from the program on; what a launcher before it would do is tested in tests/launch.
std::vector<std::string> words_of(const std::string& command, const std::string& program) {
  std::istringstream words(command.substr(command.find(program) + program.size()));
  std::vector<std::string> found = {"lockstep"};
  for (std::string word; words >> word;) found.push_back(word);
  return found;
}

const std::string kSource = LOCKSTEP_SOURCE_DIR "/";

/// With the project's data where this test has them.
std::vector<std::string> with_data(std::vector<std::string> command) {
  for (std::string& word : command) {
    if (word.starts_with("data/")) word.insert(0, kSource);
  }
  return command;
}

/// The results of a command where this test has them, and what it writes to standard output.
std::vector<std::string> with_files(std::vector<std::string> command) {
  for (size_t i = 2; i < command.size(); ++i) {
    std::string& word = command[i];
    if (command[i - 1] == "-o" || command[i - 1] == "--json") {
      word = "-";
    } else if (command[i - 1] == "--from") {
      word =
          kSource + "tests/golden/topology/" + (word.ends_with(".xml") ? "two_gpus.xml" : "nvswitch8.json");
    } else if (word.ends_with(".json")) {
      word = kSource + "tests/golden/record.json";
    }
  }
  return command;
}

const std::string kProgram = "build/lockstep";

bool wants_gpu(const std::vector<std::string>& command) {
  return std::ranges::any_of(command, [](const std::string& word) {
    return word == "cuda" || word == "--cuda-graph" || word == "--share-device";
  });
}

class DocsCommandTest : public testing::TestWithParam<Mention> {};

TEST_P(DocsCommandTest, is_understood) {
  const Mention& mention = GetParam();
  std::vector<std::string> command = with_data(words_of(mention.text, kProgram));
  ASSERT_GE(command.size(), 2U) << mention.text;
  if (command[1] == "bench" || command[1] == "train") {
    command.emplace_back("--dry-run");
  } else {
    command = with_files(command);
  }
  const test::Finished finished = test::run(command);
  if (wants_gpu(command) && finished.exit_code == kExitBackendMissing) {
    // What is wrong with a command is said before what is missing here.
    EXPECT_NE(finished.error.find("--device cuda cannot be had"), std::string::npos) << finished.error;
    return;
  }
  EXPECT_EQ(finished.exit_code, 0) << mention.file << ": " << mention.text << '\n' << finished.error;
  EXPECT_FALSE(finished.output.empty()) << mention.text;
}

INSTANTIATE_TEST_SUITE_P(Documents, DocsCommandTest, testing::ValuesIn(commands_with(kProgram)));

TEST(DocsCommandsTest, there_are_some) {
  EXPECT_GE(commands_with(kProgram).size(), 5U);
}

}  // namespace
}  // namespace lockstep::docs
