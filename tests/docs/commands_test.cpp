// The lockstep commands of the documents are run as they stand there, measurements with --dry-run.

#include <sstream>

#include <gtest/gtest.h>

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

TEST(DocsCommandsTest, every_lockstep_command_is_understood) {
  const std::string program = "build/lockstep";
  const auto mentions = commands_with(program);
  ASSERT_GE(mentions.size(), 5U);
  for (const Mention& mention : mentions) {
    std::vector<std::string> command = words_of(mention.text, program);
    ASSERT_GE(command.size(), 2U) << mention.text;
    if (command[1] == "bench") command.emplace_back("--dry-run");
    const test::Finished finished = test::run(command);
    EXPECT_EQ(finished.exit_code, 0) << mention.file << ": " << mention.text << '\n' << finished.error;
    EXPECT_FALSE(finished.output.empty()) << mention.text;
  }
}

}  // namespace
}  // namespace lockstep::docs
