#include <array>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/results/files/record_json.h"
#include "lockstep/results/tables/document.h"

#include "cli/in_process.h"
#include "golden/golden.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kShown = std::string(LOCKSTEP_GOLDEN) + "/record.json";

/// The output of the program on a terminal of so many columns, its lines without carriage returns.
std::string on_screen(unsigned short columns, const std::vector<std::string>& words, bool colors = false) {
  winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  int screen = -1;
  const pid_t child = ::forkpty(&screen, nullptr, nullptr, &size);
  if (child == 0) {
    colors ? ::unsetenv("NO_COLOR") : ::setenv("NO_COLOR", "1", 1);
    std::vector<char*> arguments{const_cast<char*>(LOCKSTEP_PROGRAM)};
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execv(LOCKSTEP_PROGRAM, arguments.data());
    ::_exit(127);
  }
  std::string output;
  std::array<char, 4096> part{};
  // The end of a terminal is an error.
  for (ssize_t count = 0; (count = ::read(screen, part.data(), part.size())) > 0;)
    output.append(part.data(), static_cast<size_t>(count));
  ::close(screen);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << output;
  std::erase(output, '\r');
  return output;
}

size_t longest_line(const std::string& text) {
  size_t longest = 0;
  for (const std::string& line : testing_golden::lines_of(text)) {
    // Figures and paths of GPUs take more than 80 columns.
    if (line.find("1980") == std::string::npos && line.find("SM clock") == std::string::npos)
      longest = std::max(longest, results::display_width(line));
  }
  return longest;
}

TEST(ScreenTest, tables_and_texts_take_the_width_of_the_terminal) {
  for (const unsigned short columns : {80, 120}) {
    const std::string text = on_screen(columns, {"show", kShown});
    EXPECT_LE(longest_line(text), columns) << text;
    EXPECT_GT(longest_line(text), columns - 10U) << text;
    EXPECT_LT(text.find("Scaling: "), text.find("Benchmark: "));
    EXPECT_THAT(text, AllOf(HasSubstr("WARNING: 4 ranks"), Not(HasSubstr("!!!")), Not(HasSubstr("\x1b["))));
  }
  EXPECT_THAT(on_screen(80, {"show", kShown}, true), HasSubstr("\x1b[1;31mWARNING: \x1b[0m4 ranks"));
}

TEST(ScreenTest, help_and_lists_fit_80_columns) {
  EXPECT_LE(longest_line(on_screen(80, {"info", "strategies"})), 80U);
  for (const char* command : {"bench", "collectives", "compare", "import", "report", "train"}) {
    const std::string text = on_screen(80, {command, "--help"});
    EXPECT_LE(longest_line(text), 80U) << text;
    EXPECT_THAT(text, AllOf(HasSubstr("Examples:"), Not(HasSubstr("=[]"))));
  }
}

TEST(ScreenTest, a_pipe_has_100_columns_and_no_colors) {
  const std::string text = test::run_here({"lockstep", "show", kShown}).output;
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\x1b[")), HasSubstr(std::string(100, '!'))));
  EXPECT_LT(text.find("Benchmark: "), text.find("Scaling: "));
}

/// Commands between back quotes, each as a shell's words.
std::vector<std::vector<std::string>> commands_in(const std::string& text) {
  std::vector<std::vector<std::string>> found;
  const std::regex command("`lockstep ([^`]*)`");
  for (std::sregex_iterator at(text.begin(), text.end(), command), end; at != end; ++at) {
    std::istringstream line((*at)[1]);
    std::vector<std::string>& words = found.emplace_back(std::vector<std::string>{"lockstep"});
    for (std::string word; line >> word;) words.push_back(word);
  }
  return found;
}

/// The summary's commands run: all of them are asked for their plan.
TEST(ScreenTest, the_commands_of_a_summary_run) {
  const test::ScratchFolder folder;
  std::set<std::string> seen;
  for (const bool breakdown : {false, true}) {
    for (const double transfer_s : {0.0, 0.0625}) {
      results::RunRecord record = results::read_record(kShown);
      record.command = {"lockstep",   "bench",       "--model", "resnet50,lenet5", "--ranks=1,2,4",
                        "--batch",    "8,16",        "--json",  "x.json",          "--style",
                        "ddp",        "--bucket-mb", "1,25",    "--strategy",      "all",
                        "--baseline", "ddp:1"};
      for (results::Run& run : record.runs) {
        run.model = "lenet5";
        run.device = "cpu";
        run.tuning.reset();
        if (!breakdown) run.breakdown.reset();
        run.factors.reset();
        if (breakdown && run.strategy == "ddp")
          run.factors =
              results::EfficiencyFactors{.machine = 0.98, .strategy = 0.99, .transfer = 1 - transfer_s};
      }
      record.runs.push_back(record.runs[1]);
      record.runs.back().strategy = "replicated";
      record.runs.back().images_per_s *= 0.9;
      const std::string path = folder.path("a.json");
      std::ofstream(path) << results::to_json(record);
      std::string text = test::run_here({"lockstep", "show", path, "--markdown"}).output;
      text.erase(0, text.find("### Summary"));
      for (std::vector<std::string> words : commands_in(text)) {
        seen.insert(words[1]);
        if (words[1] != "topo") words.insert(words.begin() + 2, "--dry-run");
        const test::Finished finished = test::run_here(words);
        EXPECT_EQ(finished.exit_code, 0) << testing::PrintToString(words) << finished.error;
        EXPECT_THAT(finished.output, Not(HasSubstr("resnet50")));
      }
    }
  }
  EXPECT_THAT(seen, testing::ElementsAre("bench", "compare", "topo"));
}

}  // namespace
}  // namespace lockstep
