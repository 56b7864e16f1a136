#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/in_process.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kRecord = std::string(LOCKSTEP_GOLDEN) + "/record.json";

test::Finished show(std::vector<std::string> words) {
  words.insert(words.begin(), {"lockstep", "show"});
  return test::run_here(words);
}

TEST(ShowTest, a_saved_result_is_printed_in_any_style) {
  const std::vector<std::pair<std::string, std::string>> styles{{"lockstep", "Efficiency and its factors"},
                                                                {"ddp", "sec/iter"},
                                                                {"throughput", "forward"},
                                                                {"theano", "synchronisation"},
                                                                {"tensorpack", "input device"}};
  for (const auto& [style, text] : styles) {
    const test::Finished finished = show({kRecord, "--style", style});
    EXPECT_EQ(finished.exit_code, 0) << finished.error;
    EXPECT_THAT(finished.output, AllOf(HasSubstr("PyTorch version: 2.11.0"), HasSubstr(text)));
  }
}

TEST(ShowTest, markdown_csv_and_epochs) {
  EXPECT_THAT(show({kRecord, "--markdown"}).output, HasSubstr("| ranks | strategy |"));
  EXPECT_THAT(show({kRecord, "--csv", "-"}).output, StartsWith("model,batch_per_rank,"));
  EXPECT_THAT(show({kRecord, "--style", "theano", "--epoch-size", "5120"}).output,
              HasSubstr("hours per 5120 images"));
}

TEST(ShowTest, a_training_is_its_epochs) {
  const std::string training = LOCKSTEP_SOURCE_DIR "/tests/fuzz/corpus/result_file/good_training.json";
  const test::Finished finished = show({training});
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  EXPECT_THAT(finished.output,
              AllOf(HasSubstr("lockstep 0.1.0: data-parallel training\n"), HasSubstr("* strategy: ddp"),
                    HasSubstr("eval acc."), HasSubstr("93.75 %")));
}

TEST(ShowTest, a_dash_is_standard_input) {
  const std::string record = std::string(LOCKSTEP_GOLDEN) + "/record.json";
  const std::string program = LOCKSTEP_PROGRAM;
  const auto piped = [&](const std::string& command) {
    return test::run({"sh", "-c", "cat " + record + " | " + program + " " + command});
  };
  EXPECT_EQ(piped("show -").output, test::run({"lockstep", "show", record}).output);
  for (const char* command : {"report - -o -", "plot - --chart throughput -o -"}) {
    const test::Finished finished = piped(command);
    EXPECT_EQ(finished.exit_code, 0) << finished.error;
    EXPECT_NE(finished.output, "");
  }
  EXPECT_EQ(piped("diff - " + record).exit_code, 0);
  for (const char* kind : {"collectives", "links"}) {
    const std::string file = LOCKSTEP_GOLDEN "/" + std::string(kind) + ".json";
    const auto given = [&](const std::string& command) {
      return test::run({"sh", "-c", "cat " + file + " | " + program + " " + command});
    };
    EXPECT_EQ(given("show -").output, show({file}).output);
    EXPECT_THAT(given("report - -o -").output, HasSubstr("</html>"));
  }
  EXPECT_EQ(test::run({"sh", "-c", program + " topo --from - < " LOCKSTEP_GOLDEN "/links.json"}).exit_code,
            0);
  EXPECT_THAT(test::run({"lockstep", "show", "-"}).error, HasSubstr("/dev/stdin"));
}

}  // namespace
}  // namespace lockstep
