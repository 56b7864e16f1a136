// Command lines that are wrong in one place: each ends with one sentence, and writes nothing.

#include <algorithm>
#include <array>
#include <filesystem>
#include <iomanip>
#include <map>
#include <regex>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/file.h"

#include "cli/in_process.h"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;
using testing::HasSubstr;

const std::string kAnyRecord = std::string(LOCKSTEP_GOLDEN) + "/record.json";

struct WrongUsage {
  Words words;
  /// Parts of the message.
  Words texts;
  int exit_code = 2;
};

/// The words of a line, which may stand in single quotes.
Words words_of(const std::string& text) {
  std::istringstream stream(text);
  Words words;
  for (std::string word; stream >> std::quoted(word, '\'');)
    words.push_back(std::regex_replace(word, std::regex("^RECORD"), kAnyRecord));
  return words;
}

/// The command lines of wrong_usage.txt.
std::vector<WrongUsage> written_by_hand() {
  std::vector<WrongUsage> all;
  std::istringstream file(read_file(LOCKSTEP_SOURCE_DIR "/tests/cli/wrong_usage.txt"));
  int exit_code = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("exit ")) exit_code = std::stoi(line.substr(5));
    const size_t arrow = line.find("=> ");
    if (line.starts_with('#') || arrow == std::string::npos) continue;
    WrongUsage wrong{words_of(line.substr(0, arrow)), {}, exit_code};
    for (size_t begin = arrow + 3, end = 0; end != std::string::npos; begin = end + 3) {
      end = line.find(" | ", begin);
      wrong.texts.push_back(line.substr(begin, end - begin));
    }
    all.push_back(std::move(wrong));
  }
  return all;
}

/// A flag as `COMMAND --help` lists it.
struct ListedFlag {
  std::string name;
  /// "INT", "FILE"; empty: the flag takes no value.
  std::string value;
};

std::vector<ListedFlag> listed_flags(const std::string& command) {
  const std::string help = test::run_here({"lockstep", command, "--help"}).output;
  static const std::regex line(R"(\n  (?:-[a-z],)?(--[a-z-]+)(?: ([A-Z][A-Za-z|.]*))?)");
  std::vector<ListedFlag> flags;
  for (std::sregex_iterator match(help.begin(), help.end(), line), end; match != end; ++match)
    flags.push_back({(*match)[1], (*match)[2]});
  return flags;
}

/// Words that the command needs beside its flags.
Words needed_by(const std::string& command) {
  if (command == "diff") return {kAnyRecord, kAnyRecord};
  if (command == "show" || command == "predict") return {kAnyRecord};
  if (command == "import") return {"rank0.json"};
  if (command == "report") return {kAnyRecord, "-o", "page.html"};
  if (command == "plot") return {kAnyRecord, "--chart", "throughput", "-o", "chart.svg"};
  if (command == "feed") return {"--address", "ipc:///tmp/lockstep-nobody"};
  return {};
}

bool takes_number(const ListedFlag& flag) {
  return flag.value == "INT" || flag.value == "UINT" || flag.value == "FLOAT" || flag.value == "SHARE";
}

/// Wrong for every number.
constexpr std::array kNoNumbers{"-1",         "inf",   "x",    "nan",  "1e400", "",
                                "3 furlongs", "1e999", "-inf", "0x10", "1,5,x"};

/// For every flag of the command: a letter too many, nothing behind it, nothing in it, and what is no number.
void add_generated(const std::string& command, std::vector<WrongUsage>& all) {
  const auto add = [&](const Words& words, const Words& texts) {
    Words line{command};
    std::ranges::copy(needed_by(command), std::back_inserter(line));
    std::ranges::copy(words, std::back_inserter(line));
    all.push_back({std::move(line), texts});
  };
  for (const ListedFlag& flag : listed_flags(command)) {
    if (flag.name == "--help") continue;
    // compare passes flags that it lacks on to bench.
    if (command != "compare")
      add({flag.name + "x"}, {"unknown flag '" + flag.name + "x'; did you mean", flag.name});
    if (flag.value.empty()) {
      add({flag.name + "=maybe"}, {flag.name + " takes no value", "'maybe'"});
      continue;
    }
    const bool stands_alone = command == "predict" && (flag.name == "--json" || flag.name == "--what-if");
    if (flag.name != "--chart" && flag.name != "--output" && flag.name != "--address" && !stands_alone)
      add({flag.name}, {flag.name + " needs a value: "});
    add({flag.name, ""}, {flag.name + " was given an empty value"});
    add({flag.name + "="}, {flag.name + " was given an empty value"});
    if (!takes_number(flag)) continue;
    for (const std::string value : kNoNumbers) {
      add({flag.name, value},
          {value.empty() ? flag.name + " was given an empty value" : flag.name + " takes "});
    }
  }
}

/// The fault in the answer to a wrong command line; empty if there is none.
std::string fault_in(const WrongUsage& wrong, const test::Finished& finished) {
  const std::string& text = finished.error;
  if (finished.exit_code != wrong.exit_code) return "the exit code is " + std::to_string(finished.exit_code);
  if (!finished.output.empty()) return "something went to standard output";
  if (!text.starts_with("lockstep: error: ")) return "it does not begin as an error does";
  if (std::ranges::count(text, '\n') > 2) return "it is more than a sentence and advice";
  for (const char* raw : {"std::", "filesystem error", "terminate", "bad_alloc", "Could not convert"})
    if (text.find(raw) != std::string::npos) return std::string("it says ") + raw;
  for (const std::string& part : wrong.texts)
    if (text.find(part) == std::string::npos) return "it does not say: " + part;
  return "";
}

void expect_answers(const std::vector<WrongUsage>& all) {
  const test::ScratchFolder folder;
  const test::WorkingFolder here(folder.path());
  for (const WrongUsage& wrong : all) {
    Words command{"lockstep"};
    std::ranges::copy(wrong.words, std::back_inserter(command));
    const test::Finished finished = test::run_here(command);
    const std::string fault = fault_in(wrong, finished);
    if (fault.empty()) continue;
    std::ostringstream line;
    for (const std::string& word : command) line << (word.empty() ? "''" : word) << ' ';
    ADD_FAILURE() << line.str() << "\n" << fault << "\n" << finished.error;
  }
  EXPECT_EQ(folder.files(), 0U);
}

TEST(UsageTest, every_wrong_command_line_is_answered_with_one_sentence) {
  const std::vector<WrongUsage> all = written_by_hand();
  EXPECT_GE(all.size(), 150U);
  expect_answers(all);
}

TEST(UsageTest, every_flag_answers_mistakes_with_one_sentence) {
  std::vector<WrongUsage> all;
  for (const char* command : {"bench", "train", "verify", "diff", "import", "report", "show", "plot", "feed",
                              "topo", "compare", "collectives", "predict", "record"})
    add_generated(command, all);
  EXPECT_GE(all.size(), 900U);
  expect_answers(all);
}

/// A use of a command, and by flag that it reads the words that show so: with it, and without.
struct Use {
  Words words;
  std::map<std::string, std::pair<Words, Words>> read;
};

/// What the user sees of a command.
std::string outcome_of(const Words& words, const Words& more) {
  Words command{"lockstep"};
  std::ranges::copy(words, std::back_inserter(command));
  std::ranges::copy(more, std::back_inserter(command));
  std::filesystem::remove("out");
  write_file_atomically("foreign", "not lockstep's");
  const test::Finished finished = test::run_here(command);
  return std::to_string(finished.exit_code) + '\n' + finished.output + '\n' + finished.error;
}

/// Whoever adds a flag to one of these commands says in which of its uses it is read, or finds it here.
TEST(UsageTest, a_use_of_a_command_reads_every_flag_that_it_takes) {
  const test::ScratchFolder folder;
  const test::WorkingFolder here(folder.path());
  const std::string sources = LOCKSTEP_SOURCE_DIR "/data/published/sources/";
  const std::string texts = LOCKSTEP_SOURCE_DIR "/tests/fuzz/corpus/collectives_text/";
  ASSERT_EQ(test::run_here({"lockstep", "topo", "--json", "system.json"}).exit_code, 0);
  const std::map<std::string, std::pair<Words, Words>> output{
      {"--json", {{"--json", "out"}, {}}},
      {"--force", {{"--json", "foreign", "--force"}, {"--json", "foreign"}}},
      {"--markdown", {{"--markdown"}, {}}},
      {"--quiet", {{"--json", "out", "--quiet"}, {"--json", "out"}}}};
  std::vector<Use> uses{{{"collectives", "--import", texts + "good_rows_alone.txt"}, output},
                        {{"topo", "--from", "system.json"}, output},
                        {{"topo"}, output},
                        {{"predict", "--curves", sources + "pytorch_throughput.csv"}, output}};
  uses[0].read["--collective"] = {{"--collective", "broadcast", "--ranks", "4"}, {"--ranks", "4"}};
  uses[0].read["--ranks"] = {{"--ranks", "8"}, {"--ranks", "4"}};
  uses[1].read["--svg"] = uses[2].read["--svg"] = {{"--svg", "out"}, {}};
  uses[2].read["--from"] = {{"--from", "foreign"}, {}};
  uses[2].read["--measure"] = {{"--measure", "--dry-run"}, {}};
  uses[3].read["--known-up-to"] = {{"--known-up-to", "1"}, {}};
  uses[3].read["--network"] = {{"--network", "1gbit,20us"}, {}};
  uses[3].read["--collectives"] = {{"--collectives", "foreign"}, {}};
  const std::map<std::string, std::string> values{
      {"--place", "in"}, {"--while", "idle"}, {"--bind", "none"}, {"--launch", "threads"}};
  for (const Use& use : uses) {
    for (const ListedFlag& flag : listed_flags(use.words.front())) {
      if (flag.name == "--help" || std::ranges::find(use.words, flag.name) != use.words.end()) continue;
      if (const auto read = use.read.find(flag.name); read != use.read.end()) {
        EXPECT_NE(outcome_of(use.words, read->second.first), outcome_of(use.words, read->second.second))
            << use.words.front() << ' ' << flag.name << " changes nothing";
        continue;
      }
      Words more{flag.name};
      if (!flag.value.empty()) more.push_back(values.contains(flag.name) ? values.at(flag.name) : "3");
      EXPECT_THAT(outcome_of(use.words, more), HasSubstr(flag.name + " has no effect"))
          << use.words.front() << ' ' << use.words.back();
    }
  }
}

TEST(UsageTest, numbers_may_have_units_and_exponents) {
  const test::Finished plan = test::run_here(
      {"lockstep",           "bench", "--model",       "lenet5",   "--ranks",    "2",    "--batch", "1e1",
       "--bucket-mb",        "1GB",   "--timeout",     "1min",     "--max-time", "2min", "--steps", "1e2",
       "--precision-target", "3 %",   "--no-controls", "--dry-run"});
  EXPECT_EQ(plan.exit_code, 0) << plan.error;
  EXPECT_THAT(plan.output, testing::ContainsRegex("lenet5 ddp 2 ranks x 10 +1024 "));
}

TEST(UsageTest, shells_complete_commands_flags_and_names) {
  const auto completed = [](const std::string& line) {
    // As bash calls it: with the program and two words of the line.
    return test::run(
               {"env", "COMP_LINE=" + line, LOCKSTEP_PROGRAM, "completion", "lockstep", "word", "before"})
        .output;
  };
  EXPECT_EQ(completed("lockstep co"), "collectives\ncompare\ncompletion\n");
  EXPECT_EQ(completed("lockstep bench --rank"), "--ranks\n");
  EXPECT_EQ(completed("lockstep bench --model resnet1"), "resnet18\nresnet101\nresnet152\n");
  EXPECT_EQ(completed("lockstep verify --strategy ddp,re"), "ddp,replicated\n");
  EXPECT_EQ(completed("lockstep bench --model ./mine"), "");
  EXPECT_EQ(test::run({"env", "COMP_LINE=lockstep bench --mod --ranks 2", "COMP_POINT=20", LOCKSTEP_PROGRAM,
                       "completion", "lockstep", "--mod", "bench"})
                .output,
            "--model\n");
  const std::string ask =
      std::string("eval \"$('") + LOCKSTEP_PROGRAM + "' completion bash)\" && complete -p lockstep";
  const test::Finished registered = test::run({"bash", "-c", ask});
  EXPECT_EQ(registered.exit_code, 0) << registered.error;
  EXPECT_THAT(registered.output, testing::HasSubstr("completion"));
  const test::Finished of_package =
      test::run({"env", "LOCKSTEP_USERS_LIBRARY_PATH=", LOCKSTEP_PROGRAM, "completion", "fish"});
  EXPECT_THAT(of_package.output, testing::HasSubstr("\"lockstep\" completion"));
}

TEST(UsageTest, pages_are_printed_and_help_is_a_command) {
  EXPECT_THAT(test::run_here({"lockstep", "--help"}).output, HasSubstr("Exit codes"));
  EXPECT_THAT(test::run_here({"lockstep", "--version"}).output, testing::StartsWith("lockstep "));
  EXPECT_THAT(test::run({LOCKSTEP_PROGRAM, "docs"}).output, testing::HasSubstr("reading-the-report"));
  for (const char* page : {"docs/faq.md", "dev/statistics"})
    EXPECT_TRUE(test::run({LOCKSTEP_PROGRAM, "docs", page}).output.starts_with("# ")) << page;
  EXPECT_THAT(test::run({LOCKSTEP_PROGRAM, "docs", "reading"}).error,
              testing::HasSubstr("unknown page 'reading'; did you mean reading-the-report?"));
  EXPECT_EQ(test::run_here({"lockstep", "help", "diff"}).output,
            test::run_here({"lockstep", "diff", "--help"}).output);
}

// The others run in this process.
TEST(UsageTest, the_program_ends_with_the_code_of_its_command) {
  const std::string program = LOCKSTEP_PROGRAM;
  EXPECT_EQ(test::run({program, "info", "strategies"}).exit_code, 0);
  EXPECT_EQ(test::run({program, "show", "missing.json"}).exit_code, 1);
  EXPECT_EQ(test::run({program, "bench", "--device", "cuda"}).exit_code, 4);
  const test::Finished wrong = test::run({program, "bench", "--stile", "ddp"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_EQ(wrong.output, "");
  EXPECT_THAT(wrong.error,
              testing::StartsWith("lockstep: error: unknown flag '--stile'; did you mean --style?\n"));
  const test::Finished full = test::run({"sh", "-c", program + " bench --help > /dev/full"});
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_THAT(full.error, HasSubstr("standard output: No space left on device"));
}

}  // namespace
}  // namespace lockstep
