#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/results/files/record_json.h"

#include "cli/in_process.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kOneRow{"lockstep",   "bench",   "--model",   "trivial", "--ranks",  "1",
                                       "--strategy", "single",  "--steps",   "3",       "--warmup", "1",
                                       "--launch",   "threads", "--backend", "thread"};

test::Finished bench_one_row(const std::vector<std::string>& flags) {
  std::vector<std::string> command = kOneRow;
  command.insert(command.end(), flags.begin(), flags.end());
  return test::run_here(command);
}

TEST(OutputFilesTest, no_command_writes_onto_its_input) {
  const test::ScratchFolder folder;
  const std::string file = folder.path("r.json");
  ASSERT_EQ(bench_one_row({"--json", file}).exit_code, 0);
  const std::string measured = read_file(file);
  const std::vector<std::vector<std::string>> commands{
      {"lockstep", "report", file, "-o", file},
      {"lockstep", "plot", file, "--chart", "throughput", "-o", folder.path("./r.json")},
      {"lockstep", "show", file, "--csv", file}};
  for (const std::vector<std::string>& command : commands) {
    const test::Finished refused = test::run_here(command);
    EXPECT_EQ(refused.exit_code, 2) << command[1];
    EXPECT_THAT(refused.error, HasSubstr("which would be lost")) << command[1];
    EXPECT_EQ(read_file(file), measured) << command[1];
  }
}

TEST(OutputFilesTest, two_outputs_are_two_files_and_each_has_a_name) {
  const test::ScratchFolder folder;
  const test::Finished same = bench_one_row({"--json", folder.path("x"), "--csv", folder.path("x")});
  EXPECT_EQ(same.exit_code, 2);
  EXPECT_THAT(same.error, HasSubstr("--json and --csv both write"));
  for (const char* flag : {"--json", "--csv", "--trace"}) {
    const test::Finished empty = bench_one_row({flag, ""});
    EXPECT_EQ(empty.exit_code, 2) << flag;
    EXPECT_THAT(empty.error, HasSubstr(flag));
    EXPECT_THAT(empty.error, HasSubstr("empty"));
    const test::Finished dash = bench_one_row({flag, "-"});
    EXPECT_EQ(dash.exit_code, 2) << flag;
    EXPECT_THAT(dash.error, HasSubstr(std::string(flag) + " writes a file, and '-'"));
  }
}

TEST(OutputFilesTest, however_two_outputs_are_spelled_they_are_two_files) {
  const test::ScratchFolder folder;
  const test::WorkingFolder here(folder.path());
  std::filesystem::create_directory("s");
  std::filesystem::create_symlink("x.json", "link");
  for (const std::string& other : {std::string("./x.json"), folder.path("x.json"), std::string("s/../x.json"),
                                   std::string("link"), std::string("s/.././link")}) {
    for (const auto& [one, two] : {std::pair{"--json", "--csv"}, {"--csv", "--trace"}}) {
      const test::Finished refused = bench_one_row({one, "x.json", two, other});
      EXPECT_EQ(refused.exit_code, 2) << other;
      EXPECT_THAT(refused.error, HasSubstr(std::string(one) + " and " + two + " both write '" + other));
    }
    const test::Finished refused = test::run_here(
        {"lockstep", "train", "--model", "trivial", "--checkpoint", "x.json", "--json", other});
    EXPECT_EQ(refused.exit_code, 2) << other;
    EXPECT_THAT(refused.error, HasSubstr("is --checkpoint too, which would be lost"));
  }
  EXPECT_FALSE(std::filesystem::exists("x.json"));
}

TEST(OutputFilesTest, an_earlier_result_is_kept_when_a_new_one_is_there) {
  const test::ScratchFolder folder;
  const std::string file = folder.path("r.json");
  std::vector<std::string> results;
  for (int run = 0; run < 3; ++run) {
    ASSERT_EQ(bench_one_row({"--json", file}).exit_code, 0);
    results.push_back(read_file(file));
    EXPECT_EQ(folder.files(), run == 0 ? 1U : 2U);
    if (run > 0) {
      EXPECT_EQ(read_file(file + ".old"), results[run - 1]);
    }
  }
  // Launches that are added stay in the file; nobody's file is lost.
  ASSERT_EQ(bench_one_row({"--json", file, "--append"}).exit_code, 0);
  EXPECT_EQ(read_file(file + ".old"), results[1]);
  std::ofstream(file + ".old") << "thoughts of a week";
  ASSERT_EQ(bench_one_row({"--json", file}).exit_code, 0);
  EXPECT_EQ(read_file(file + ".old"), "thoughts of a week");
  EXPECT_EQ(results::read_record(file + ".old2").launches_started_at.size(), 2U);
}

TEST(OutputFilesTest, two_runs_at_once_do_not_write_one_file) {
  const test::ScratchFolder folder;
  const std::string file = folder.path("r.json");
  test::Program first({"lockstep", "bench", "--model", "trivial", "--ranks", "1", "--no-controls", "--steps",
                       "900000", "--launch", "threads", "--backend", "thread", "--json", file});
  ASSERT_TRUE(first.wait_for_error("[1/1]")) << first.error();
  std::filesystem::create_symlink(folder.path(""), folder.path("again"));
  const test::Finished second = bench_one_row({"--json", folder.path("again/r.json")});
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.error, HasSubstr("is what another lockstep (pid " + std::to_string(first.pid()) +
                                      ") is about to write"));
  const test::Finished training = test::run_here(
      {"lockstep", "train", "--model", "trivial", "--checkpoint", file, "--force", "--steps-per-epoch", "1"});
  EXPECT_EQ(training.exit_code, 2);
  EXPECT_THAT(training.error, HasSubstr("another lockstep"));
  first.signal(SIGKILL);
  first.wait();
  EXPECT_EQ(bench_one_row({"--json", file}).exit_code, 0);
}

TEST(OutputFilesTest, a_file_that_lockstep_did_not_write_is_replaced_by_force_only) {
  const test::ScratchFolder folder;
  const std::string notes = folder.path("notes.svg");
  const std::string golden = LOCKSTEP_GOLDEN, record = golden + "/record.json";
  const std::string curves = LOCKSTEP_SOURCE_DIR "/data/published/sources/curves.csv";
  const std::string osu = folder.path("osu.txt");
  std::ofstream(osu) << "# OSU MPI Allreduce Latency Test\n# Size  Avg Latency(us)\n1024  20.0\n";
  const auto commands = [&](const std::string& target) {
    std::vector<std::vector<std::string>> all{
        {"lockstep", "show", record, "--csv", target},
        {"lockstep", "report", record, "-o", target},
        {"lockstep", "plot", record, "--chart", "throughput", "-o", target},
        {"lockstep", "topo", "--json", target},
        {"lockstep", "topo", "--from", golden + "/links.json", "--json", target},
        {"lockstep", "report", golden + "/collectives.json", "-o", target},
        {"lockstep", "collectives", "--import", osu, "--ranks", "2", "--json", target},
        {"lockstep", "predict", record, "--json", target},
        {"lockstep", "predict", "--curves", curves, "--json", target}};
    all.push_back(kOneRow);
    all.back().insert(all.back().end(), {"--json", target});
    return all;
  };
  for (std::vector<std::string> command : commands(notes)) {
    std::ofstream(notes) << "thoughts of a week";
    const test::Finished refused = test::run_here(command);
    EXPECT_EQ(refused.exit_code, 2) << command[1];
    EXPECT_THAT(refused.error,
                HasSubstr("notes.svg' is a file that lockstep did not write, and would be lost"));
    EXPECT_THAT(refused.error, HasSubstr("--force"));
    EXPECT_EQ(read_file(notes), "thoughts of a week");
    command.emplace_back("--force");
    EXPECT_EQ(test::run_here(command).exit_code, 0) << command[1];
    EXPECT_NE(read_file(notes), "thoughts of a week") << command[1];
  }
  // Each replaces what the one before has written, and mktemp's empty file.
  const std::string own = folder.path("own");
  std::ofstream(own).close();
  for (int round = 0; round < 2; ++round) {
    for (const std::vector<std::string>& command : commands(own)) {
      const test::Finished replaced = test::run_here(command);
      EXPECT_EQ(replaced.exit_code, 0) << command[1] << replaced.error;
    }
  }
}

TEST(OutputFilesTest, an_older_checkpoint_is_continued_or_kept) {
  const test::ScratchFolder folder;
  const std::string checkpoint = folder.path("c.safetensors");
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command{"lockstep",          "train",  "--model",      "trivial",
                                     "--steps-per-epoch", "1",      "--launch",     "threads",
                                     "--backend",         "thread", "--checkpoint", checkpoint};
    command.insert(command.end(), more.begin(), more.end());
    return test::run_here(command);
  };
  ASSERT_EQ(train({}).exit_code, 0);
  const std::string first = read_file(checkpoint);
  const test::Finished refused = train({"--seed", "2"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.error, HasSubstr("c.safetensors' is there already, and would be lost"));
  EXPECT_THAT(refused.error, HasSubstr("--resume"));
  EXPECT_EQ(read_file(checkpoint), first);
  EXPECT_EQ(train({"--resume", checkpoint, "--epochs", "2"}).exit_code, 0);
  EXPECT_NE(read_file(checkpoint), first);
  EXPECT_EQ(train({"--seed", "2", "--force"}).exit_code, 0);
}

TEST(OutputFilesTest, a_result_from_elsewhere_does_nothing_to_a_terminal) {
  const test::ScratchFolder folder;
  std::string text = read_file(std::string(LOCKSTEP_GOLDEN) + "/record.json");
  for (size_t at = text.find("resnet50"); at != std::string::npos; at = text.find("resnet50", at + 9))
    text.replace(at, 8, "re\\u001b[2Js\\n```\\n");
  std::ofstream(folder.path("r.json")) << text;
  const std::string file = folder.path("r.json");
  for (const std::vector<std::string>& command : {std::vector<std::string>{"lockstep", "show", file},
                                                  {"lockstep", "show", file, "--markdown"},
                                                  {"lockstep", "diff", file, file, "--markdown"}}) {
    const test::Finished shown = test::run_here(command);
    EXPECT_EQ(shown.exit_code, 0) << shown.error;
    EXPECT_THAT(shown.output, HasSubstr("[2Js ```"));
    EXPECT_THAT(shown.output + shown.error, Not(HasSubstr("\x1b")));
  }
}

TEST(OutputFilesTest, a_full_standard_output_is_a_failure) {
  const test::ScratchFolder folder;
  const std::string file = folder.path("r.json");
  ASSERT_EQ(bench_one_row({"--json", file}).exit_code, 0);
  const std::string program = LOCKSTEP_PROGRAM;
  for (const std::string& command :
       {"show " + file, "report " + file + " -o -", std::string("info models")}) {
    const test::Finished full = test::run({"sh", "-c", program + " " + command + " > /dev/full"});
    EXPECT_EQ(full.exit_code, 1) << command;
    EXPECT_THAT(full.error, HasSubstr("standard output: No space left on device")) << command;
  }
}

TEST(OutputFilesTest, files_are_written_although_nobody_reads_what_is_printed) {
  const test::ScratchFolder folder;
  std::string command = LOCKSTEP_PROGRAM;
  for (size_t i = 1; i < kOneRow.size(); ++i) command += " " + kOneRow[i];
  command += " --json " + folder.path("r.json") + " --csv " + folder.path("r.csv") + "; echo code $? >&3";
  const test::Finished finished =
      test::run({"bash", "-c", "{ " + command + "; } 3>&1 2>&1 | head -c 1; wait"});
  EXPECT_EQ(results::read_record(folder.path("r.json")).incomplete, "");
  EXPECT_TRUE(std::filesystem::exists(folder.path("r.csv")));
}

TEST(OutputFilesTest, a_closed_standard_output_is_a_failure_and_no_file_takes_its_place) {
  const test::Finished closed = test::run({"sh", "-c", LOCKSTEP_PROGRAM " info models >&-"});
  EXPECT_EQ(closed.exit_code, 1);
  EXPECT_THAT(closed.error, HasSubstr("cannot write to standard output"));
}

TEST(OutputFilesTest, a_run_that_fails_keeps_the_older_result_and_its_own_steps) {
  const test::ScratchFolder folder;
  const std::string file = folder.path("r.json");
  ASSERT_EQ(bench_one_row({"--json", file}).exit_code, 0);
  const std::string complete = read_file(file);
  // As a run leaves it that was killed in its second row.
  std::ofstream(file + ".partial") << complete;
  const test::Finished failed =
      test::run({"lockstep", "bench", "--model", "lenet5", "--ranks", "1", "--strategy", "single", "--steps",
                 "30", "--lr", "1e30", "--launch", "threads", "--backend", "thread", "--json", file});
  EXPECT_EQ(failed.exit_code, 1) << failed.error;
  EXPECT_THAT(failed.error, testing::ContainsRegex("rank 0 .* failed (after|before) .*step .*lenet5 single"));
  EXPECT_THAT(failed.error, HasSubstr("r.json.partial.old"));
  EXPECT_THAT(failed.error, HasSubstr("what was measured is in " + file + ".partial, marked incomplete; " +
                                      file + " is still that of an earlier run"));
  EXPECT_THAT(failed.output, Not(HasSubstr("trivial")));
  EXPECT_EQ(read_file(file), complete);
  EXPECT_EQ(read_file(file + ".partial.old"), complete);
  const results::RunRecord own = results::read_record(file + ".partial");
  ASSERT_EQ(own.runs.size(), 1U);
  EXPECT_THAT(own.runs.front().unfinished, HasSubstr("the loss of rank 0 is"));
  EXPECT_GE(own.runs.front().warmup_samples.size() + own.runs.front().samples.size(), 1U);
  EXPECT_EQ(own.incomplete, own.runs.front().unfinished);
}

TEST(OutputFilesTest, no_record_that_was_set_aside_is_lost) {
  const test::ScratchFolder folder;
  const std::string file = folder.path("r.json");
  for (const char* text : {"first", "second"}) {
    std::ofstream(file + ".partial") << text;
    ASSERT_EQ(bench_one_row({"--json", file}).exit_code, 0);
  }
  EXPECT_EQ(read_file(file + ".partial.old"), "first");
  EXPECT_EQ(read_file(file + ".partial.old2"), "second");
}

}  // namespace
}  // namespace lockstep
