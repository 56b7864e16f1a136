#include <filesystem>
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "lockstep/base/file.h"
#include "lockstep/results/files/record_json.h"

#include "cli/in_process.h"
#include "recordings/made_traces.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

/// Writes the traces of a job and returns their paths.
std::vector<std::string> write_traces(const test::ScratchFolder& folder, const std::string& name,
                                      const recordings::MadeJob& job) {
  std::vector<std::string> paths;
  for (const auto& trace : recordings::made_traces(job)) {
    paths.push_back(folder.path(name + std::to_string(paths.size()) + ".json"));
    write_file_atomically(paths.back(), trace.dump());
  }
  return paths;
}

TEST(ImportTest, a_result_of_traces_is_one_like_any_other) {
  const test::ScratchFolder folder;
  const auto traces = write_traces(folder, "two", {.late_us = {0, 3000}});
  const auto alone = write_traces(folder, "one", {.world = 1, .transfer_us = 0, .late_us = {0}});
  const std::string result = folder.path("run.json");
  const test::Finished finished = test::run_here(
      {"lockstep", "import", traces[0], traces[1], "--alone", alone[0], "--name", "mine", "-o", result});
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  EXPECT_THAT(finished.output, HasSubstr("mine, 2 ranks reach 1.50 times one"));
  EXPECT_THAT(finished.output, HasSubstr("waiting for rank 1 (rank 1's input takes"));
  EXPECT_EQ(results::read_record(result).runs.size(), 2u);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"lockstep", "show", result},
        {"lockstep", "diff", result, result},
        {"lockstep", "report", result, "-o", folder.path("run.html")},
        {"lockstep", "import", traces[0], "--alone", result, "-o", folder.path("again.json")}}) {
    const test::Finished next = test::run_here(command);
    EXPECT_EQ(next.exit_code, 0) << command[1] << ": " << next.error;
  }
}

TEST(ImportTest, recordings_of_several_numbers_of_ranks_make_one_result) {
  const test::ScratchFolder folder;
  const std::string result = folder.path("run.json");
  // As mktemp's.
  std::ofstream(result).close();
  const auto add = [&](const std::string& name, const recordings::MadeJob& job) {
    std::vector<std::string> command{"lockstep", "import", "-o", result, "--append"};
    for (const std::string& trace : write_traces(folder, name, job)) command.push_back(trace);
    const test::Finished finished = test::run_here(command);
    EXPECT_EQ(finished.exit_code, 0) << finished.error;
  };
  add("one", {.world = 1, .transfer_us = 0, .late_us = {0}});
  add("two", {});
  add("again", {});
  const results::RunRecord record = results::read_record(result);
  ASSERT_EQ(record.runs.size(), 2u);
  EXPECT_GT(record.runs[1].speedup.value_or(0), 1);
  EXPECT_EQ(record.runs[1].launch_steps.size(), 2u);
  EXPECT_EQ(record.ranks, 2);
}

TEST(ImportTest, a_trace_has_the_steps_above_the_events_of_pytorch) {
  const test::ScratchFolder folder;
  const auto traces = write_traces(folder, "rank", {});
  const std::string path = folder.path("trace.json");
  const test::Finished finished = test::run_here({"lockstep", "import", traces[1], "--trace", path});
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  std::vector<std::string> tracks;
  std::set<std::string> names;
  const nlohmann::json trace = nlohmann::json::parse(read_file(path));
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name") tracks.push_back(event["args"]["name"]);
    if (event["ph"] == "X") names.insert(event["name"]);
  }
  EXPECT_THAT(tracks, testing::ElementsAre("rank 1", "rank 1 buckets", "rank 1 PyTorch, track 0",
                                           "rank 1 PyTorch, track 1"));
  EXPECT_THAT(names, testing::IsSupersetOf({"step 6", "exposed communication", "Optimizer.step#SGD.step"}));
}

TEST(ImportTest, a_baseline_that_counts_steps_is_none_of_a_job_that_counts_samples) {
  const test::ScratchFolder folder;
  const auto two = write_traces(folder, "two", {});
  recordings::MadeJob job{.world = 1, .transfer_us = 0, .late_us = {0}, .batch = 0};
  const auto alone = write_traces(folder, "one", job);
  const std::string result = folder.path("run.json");
  std::vector<std::string> command{"lockstep", "import", two[0], two[1], "--alone", alone[0], "-o", result};
  const test::Finished refused = test::run_here(command);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.error,
              testing::AllOf(HasSubstr("how many samples --alone trains in a step is not known"),
                             HasSubstr("--samples-per-step")));
  EXPECT_FALSE(std::filesystem::exists(result));
  command.insert(command.end(), {"--samples-per-step", "32"});
  EXPECT_EQ(test::run_here(command).exit_code, 0);
  const std::optional<double> efficiency = results::read_record(result).runs[1].efficiency;
  EXPECT_GT(efficiency.value_or(0), 0.5);
  EXPECT_LT(efficiency.value_or(9), 1.1);
}

TEST(ImportTest, wrong_files_are_answered_with_one_sentence) {
  const test::ScratchFolder folder;
  const auto traces = write_traces(folder, "two", {});
  const auto refused = [&](const std::vector<std::string>& words, int code, const std::string& text) {
    std::vector<std::string> command{"lockstep", "import"};
    command.insert(command.end(), words.begin(), words.end());
    const test::Finished finished = test::run_here(command);
    EXPECT_EQ(finished.exit_code, code) << finished.error;
    EXPECT_THAT(finished.error, HasSubstr(text));
  };
  write_file_atomically(folder.path("cut.json"), read_file(traces[0]).substr(0, 1000));
  write_file_atomically(folder.path("other.json"), "{}");
  refused({folder.path("none.json")}, 1, "No such file");
  refused({folder.path("cut.json")}, 1, "is cut off after 1000 bytes");
  refused({folder.path("other.json")}, 1, "has no list of events");
  refused({traces[0], traces[0]}, 1, "rank 0 is there twice");
  refused({traces[0], "-o", traces[0]}, 2, "would be lost");
  refused({traces[0], "--alone", traces[1]}, 2, "--alone has no run of one rank");
  refused({}, 2, "needs");
}

TEST(ImportTest, files_within_folders_that_are_read_are_inputs_too) {
  const test::ScratchFolder folder;
  std::filesystem::create_directory(folder.path("k"));
  const auto traces = write_traces(folder, "k/rank-", {});
  const std::string before = read_file(traces[0]);
  std::filesystem::create_symlink(traces[0], folder.path("link.json"));
  const std::vector<std::vector<std::string>> lines{{"-o", traces[0]},
                                                    {"--trace", traces[1]},
                                                    {"-o", folder.path("k/../k/rank-0.json")},
                                                    {"-o", folder.path("link.json")}};
  for (std::vector<std::string> words : lines) {
    words.insert(words.begin(), {"lockstep", "import", folder.path("k"), "--force"});
    const test::Finished finished = test::run_here(words);
    EXPECT_EQ(finished.exit_code, 2) << words[5];
    EXPECT_THAT(finished.error, HasSubstr("would be lost"));
  }
  EXPECT_EQ(read_file(traces[0]), before);
  // A new file in the folder, and a result that is there already.
  for (int i = 0; i < 2; ++i) {
    const test::Finished kept = test::run_here(
        {"lockstep", "import", traces[0], traces[1], "--alone", folder.path("nowhere"), "-o", traces[0]});
    EXPECT_EQ(kept.exit_code, 2) << kept.error;
    EXPECT_EQ(test::run_here({"lockstep", "import", traces[0], traces[1], "-o", folder.path("k/run.json")})
                  .exit_code,
              0);
  }
}

TEST(ImportTest, a_pipe_and_a_link_to_itself_are_refused_at_once) {
  const test::ScratchFolder folder;
  ASSERT_EQ(::mkfifo(folder.path("pipe.json").c_str(), 0600), 0);
  std::filesystem::create_symlink("loop.json", folder.path("loop.json"));
  const auto traces = write_traces(folder, "rank-", {});
  for (const auto& [name, text] : {std::pair{"pipe.json", "it is not a regular file"},
                                   {"loop.json", "Too many levels of symbolic links"}}) {
    const test::Finished finished = test::run_here({"lockstep", "import", traces[0], folder.path(name)});
    EXPECT_EQ(finished.exit_code, 1);
    EXPECT_THAT(finished.error, testing::AllOf(HasSubstr(text), HasSubstr(name)));
    EXPECT_THAT(finished.error, testing::Not(HasSubstr("filesystem error")));
  }
}

}  // namespace
}  // namespace lockstep
