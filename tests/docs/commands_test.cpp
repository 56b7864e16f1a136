// Runs the lockstep commands of the documents as written, measurements with --dry-run, on golden results.

#include <algorithm>
#include <cctype>
#include <regex>
#include <sstream>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

#include "bench_options.h"
#include "cli/in_process.h"
#include "docs/document.h"

namespace lockstep::docs {
namespace {

/// The words from the program on; tests/launch tests the launchers before it.
std::vector<std::string> words_of(const std::string& command, const std::string& program) {
  std::istringstream words(command.substr(command.find(program) + program.size()));
  std::vector<std::string> found = {"lockstep"};
  for (std::string word; words >> word;) found.push_back(word);
  return found;
}

const std::string kSource = LOCKSTEP_SOURCE_DIR "/";

/// Points paths below data/, and a network in a file, to the project's folder.
std::vector<std::string> with_data(std::vector<std::string> command) {
  for (std::string& word : command) {
    if (word.starts_with("data/")) word.insert(0, kSource);
    if (word == "mine.pt2") word = kSource + "tests/references/small.pt2";
  }
  return command;
}

/// Reads golden files in place of the command's own, and writes to standard output.
std::vector<std::string> with_files(std::vector<std::string> command) {
  for (size_t i = 2; i < command.size(); ++i) {
    std::string& word = command[i];
    if (command[i - 1] == "-o" || command[i - 1] == "--json" || command[i - 1] == "--svg") {
      word = "-";
    } else if (word == "network.json") {
      word = kSource + "tests/golden/links.json";
    } else if (command[i - 1] == "--from") {
      word =
          kSource + "tests/golden/topology/" + (word.ends_with(".xml") ? "two_gpus.xml" : "nvswitch8.json");
    } else if (word == "links.json") {
      word = kSource + "tests/golden/collectives.json";
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

/// Runs the command as far as it needs no measurement: an estimate of --dry-run would train. verify has a
/// smaller network instead.
test::Finished understand(std::vector<std::string> command) {
  if (command[1] == "verify") {
    std::ranges::replace(command, std::string("resnet18"), std::string("lenet5"));
    std::ranges::replace(command, std::string("64"), std::string("28"));
    return test::run(command);
  }
  if (command[1] == "train" || command[1] == "compare" || command[1] == "collectives" ||
      std::ranges::find(command, "--measure") != command.end()) {
    // Flags behind "--" are another command's.
    command.insert(std::ranges::find(command, "--"), "--dry-run");
  } else if (std::ranges::find(command, "--verify") != command.end()) {
    command = with_files(command);
    command.emplace_back("--dry-run");
  } else if (command[1] != "bench") {
    command = with_files(command);
  }
  if (command[1] != "bench") {
    test::Finished finished = test::run_here(command);
    // The launches of the sample are too short for a verdict.
    if (finished.error.find("--fail-on regression needs") != std::string::npos) finished.exit_code = 0;
    return finished;
  }
  test::Finished finished{.output = "planned"};
  try {
    cli::plan_bench(command);
  } catch (const std::exception& error) {
    const Trouble trouble = trouble_of(error);
    finished.exit_code = trouble.exit_code;
    finished.error = trouble.what;
  }
  return finished;
}

class DocsCommandTest : public testing::TestWithParam<Mention> {};

TEST_P(DocsCommandTest, is_understood) {
  const Mention& mention = GetParam();
  const std::vector<std::string> command = with_data(words_of(mention.text, kProgram));
  ASSERT_GE(command.size(), 2U) << mention.text;
  const test::Finished finished = understand(command);
  if (wants_gpu(command) && finished.exit_code == kExitBackendMissing) {
    // Mistakes in a command are reported before a missing GPU is.
    EXPECT_NE(finished.error.find("--device cuda cannot be used"), std::string::npos) << finished.error;
    return;
  }
  EXPECT_EQ(finished.exit_code, 0) << mention.file << ": " << mention.text << '\n' << finished.error;
  EXPECT_FALSE(finished.output.empty()) << mention.text;
}

INSTANTIATE_TEST_SUITE_P(Documents, DocsCommandTest, testing::ValuesIn(commands_with(kProgram)));

/// The words of a help text that match, in order.
std::vector<std::string> found_in(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match) {
    found.push_back((*match)[1]);
  }
  return found;
}

std::string help_of(const std::vector<std::string>& command) {
  const test::Finished finished = test::run_here(command);
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  return finished.output;
}

/// Whether the text names the flag, and not only a longer one that begins with it.
bool has_flag(const std::string& text, const std::string& flag) {
  for (size_t at = text.find(flag); at != std::string::npos; at = text.find(flag, at + 1)) {
    const char next = at + flag.size() < text.size() ? text[at + flag.size()] : ' ';
    if (next != '-' && std::islower(static_cast<unsigned char>(next)) == 0) return true;
  }
  return false;
}

TEST(DocsFlagsTest, every_flag_of_every_command_stands_on_a_page) {
  std::string pages;
  for (const std::string& file : markdown_files()) {
    if (file != "CHANGELOG.md") pages += project_file(file) + '\n';
  }
  const std::string overview = help_of({"lockstep", "--help"});
  const size_t begin = overview.find("Subcommands:");
  const auto commands =
      found_in(overview.substr(begin, overview.find("\n\n", begin) - begin), R"(\n  ([a-z]+) )");
  ASSERT_GE(commands.size(), 10U);
  for (const std::string& command : commands) {
    const auto flags =
        found_in(help_of({"lockstep", command, "--help"}), R"(\n  (?:-[a-z],)?(--[a-z][a-z-]*))");
    EXPECT_FALSE(flags.empty()) << command;
    for (const std::string& flag : flags) {
      if (flag == "--help") continue;
      EXPECT_TRUE(has_flag(pages, flag)) << "no page has " << flag << " of lockstep " << command;
    }
  }
}

/// Commands that stand outside of `sh` blocks, because a step before them or beside them is needed.
std::vector<std::string> commands_in(const std::string& file, const std::string& part) {
  std::vector<std::string> found;
  for (const std::string& command : all_commands(project_file(file))) {
    if (command.find(part) != std::string::npos) found.push_back(command);
  }
  return found;
}

TEST(DocsSequenceTest, a_training_is_resumed_from_its_checkpoint) {
  const test::ScratchFolder folder;
  const std::vector<std::string> commands = commands_in("docs/training.md", "--checkpoint d.safetensors");
  ASSERT_EQ(commands.size(), 2U);
  for (const std::string& text : commands) {
    std::vector<std::string> command = with_data(words_of(text, kProgram));
    std::ranges::replace(command, std::string("d.safetensors"), folder.path("d.safetensors"));
    const test::Finished finished = test::run(command);
    EXPECT_EQ(finished.exit_code, 0) << text << '\n' << finished.error;
  }
}

/// Nobody takes the batches here, which is the end of a feeder whose flags are right.
TEST(DocsSequenceTest, feeders_wait_for_ranks) {
  const test::ScratchFolder folder;
  const std::vector<std::string> commands = commands_in("docs/inputs.md", "build/lockstep feed");
  ASSERT_FALSE(commands.empty());
  for (const std::string& text : commands) {
    std::vector<std::string> command = words_of(text, kProgram);
    std::ranges::replace(command, std::string("ipc:///tmp/batches"), "ipc://" + folder.path("batches"));
    command.insert(command.end(), {"--timeout", "0.1"});
    const test::Finished finished = test::run_here(command);
    EXPECT_EQ(finished.exit_code, 1) << text;
    EXPECT_NE(finished.error.find("nobody has taken a batch"), std::string::npos) << finished.error;
  }
}

TEST(DocsCommandsTest, there_are_some) {
  EXPECT_GE(commands_with(kProgram).size(), 5U);
}

}  // namespace
}  // namespace lockstep::docs
