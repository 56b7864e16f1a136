#include "lockstep/recordings/import.h"

#include <filesystem>

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/results/files/record_json.h"

#include "recordings/made_traces.h"

namespace lockstep::recordings {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
namespace fs = std::filesystem;

/// A folder for the files of one test.
class ImportTest : public testing::Test {
 protected:
  ImportTest() : folder_(make_private_folder("lockstep-import-test")) {}
  ~ImportTest() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& text) const {
    write_file_atomically(folder_ / name, text);
    return folder_ / name;
  }
  fs::path write_gz(const std::string& name, const std::string& text) const {
    const gzFile file = gzopen((folder_ / name).c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
    return folder_ / name;
  }
  std::vector<fs::path> write_traces(const MadeJob& job) const {
    std::vector<fs::path> paths;
    for (const json& trace : made_traces(job))
      paths.push_back(write_gz(fmt::format("rank-{}.trace.json.gz", paths.size()), trace.dump()));
    return paths;
  }
  /// A recording's folder: 40 steps of 10 ms, from the 20th to the 26th in the profiler's window, of 15 ms.
  void write_recording(const MadeJob& job) const {
    const size_t ranks = write_traces(job).size();
    for (size_t rank = 0; rank < ranks; ++rank) {
      json ends = json::array();
      double at_s = 100;
      for (int i = 0; i < 40; ++i)
        ends.push_back(at_s += i >= 20 && i < 26 ? 0.015 : 0.01 + 1e-5 * (i * 7 % 5));
      write(fmt::format("rank-{}.json", rank),
            json{{"lockstep_recording", 1},
                 {"rank", rank},
                 {"world", ranks},
                 {"host", "box"},
                 {"torch", "2.11.0"},
                 {"backend", "gloo"},
                 {"strategy", "ddp"},
                 {"command", {"python", "my_train.py"}},
                 {"started_at", "2026-11-25T12:00:00Z"},
                 {"step_end_s", ends},
                 {"window", {20, 26}},
                 {"trace", fmt::format("rank-{}.trace.json.gz", rank)},
                 {"samples_per_step", 32},
                 {"processor", {{"before_s", 0.003}, {"backward_s", 0.004}}},
                 {"ended", "finished"},
                 {"warnings", json::array()}}
                .dump());
    }
  }

  /// Changes the file of a rank.
  void change(int rank, const json& keys) const {
    const std::string name = fmt::format("rank-{}.json", rank);
    json file = json::parse(read_file(folder_ / name));
    file.update(keys);
    write(name, file.dump());
  }
  results::Run imported() const { return import_job({.paths = {folder_}}).runs.front(); }

  fs::path folder_;
};

/// Ends of steps, from 100 s on.
json ends_of(const std::vector<double>& step_s) {
  json ends = {100.0};
  for (const double step : step_s) ends.push_back(ends.back().get<double>() + step);
  return ends;
}

TEST_F(ImportTest, traces_become_a_record_that_is_read_again) {
  const results::RunRecord record = import_job({.paths = write_traces({})});
  ASSERT_EQ(record.runs.size(), 1);
  const results::Run& run = record.runs.front();
  EXPECT_EQ(run.ranks, 2);
  EXPECT_EQ(run.strategy, "ddp");
  EXPECT_EQ(run.batch_per_rank, 32);
  EXPECT_NEAR(run.images_per_s, 2 * 32 / 0.015, 5);
  EXPECT_EQ(run.recorded->ranks, (std::vector<int>{0, 1}));
  const results::RunRecord again = results::from_json(results::to_json(record), "run.json");
  EXPECT_EQ(again.source, results::kRecordedSource);
  EXPECT_EQ(again.runs.front().recorded->gradients.size(), 4);
  EXPECT_EQ(results::to_json(again), results::to_json(record));
}

TEST_F(ImportTest, rates_of_a_recording_are_those_outside_of_the_window) {
  write_recording({});
  const results::RunRecord record = import_job({.paths = {folder_}});
  const results::Run& run = record.runs.front();
  EXPECT_EQ(run.model, "my_train");
  EXPECT_TRUE(run.recorded->rates_outside);
  EXPECT_NEAR(run.images_per_s, 64 / 0.01, 64);
  EXPECT_NEAR(run.recorded->window_cost.value_or(0), 1.5, 0.01);
  EXPECT_EQ(run.recorded->window_at, 16);
  EXPECT_EQ(run.recorded->window_steps + run.samples.size() + run.warmup_samples.size(), 39);
  EXPECT_EQ(run.recorded->by, "PyTorch 2.11.0's profiler");
  EXPECT_EQ(record.torch_version, "2.11.0");
  EXPECT_EQ(run.breakdown->ranks[1].processor.backward_s, 0.004);
}

TEST_F(ImportTest, a_recording_with_files_missing_is_imported_as_far_as_it_goes) {
  write_recording({});
  fs::remove(folder_ / "rank-1.trace.json.gz");
  const results::RunRecord record = import_job({.paths = {folder_}});
  EXPECT_EQ(record.runs.front().ranks, 2);
  EXPECT_EQ(record.runs.front().recorded->ranks, std::vector<int>{0});
  EXPECT_THAT(record.runs.front().recorded->notes, Contains(HasSubstr("is missing")));
  EXPECT_NO_THROW(results::from_json(results::to_json(record), "run.json"));
}

TEST_F(ImportTest, a_rank_whose_window_has_none_of_its_steps_is_refused_or_left_out) {
  for (const int count : {1, 2, 8, 15, 16, 17}) {
    write_recording({});
    json ends = json::parse(read_file(folder_ / "rank-0.json"))["step_end_s"];
    ends.erase(ends.begin() + count, ends.end());
    change(0, {{"step_end_s", ends}});
    std::vector<measure::RankStamps> stamps;
    try {
      EXPECT_GT(import_job({.paths = {folder_}, .stamps = &stamps}).runs.front().images_per_s, 0);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("step"));
    }
  }
}

TEST_F(ImportTest, one_text_is_bounded_by_its_own_length_whatever_is_in_it) {
  std::string name(size_t{70} << 20, '\\');
  for (size_t i = 1; i < name.size(); i += 2) name[i] = '"';
  // Quotation marks at odd and at even places, of which some begin a chunk.
  for (const char* blanks : {"", " "}) {
    write_gz("bomb.json.gz",
             fmt::format(R"({{{}"traceEvents": [{{"ph": "X", "name": "{}"}}]}})", blanks, name));
    try {
      import_job({.paths = {folder_ / "bomb.json.gz"}});
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("a single text of more than 64 MiB"));
    }
  }
}

TEST_F(ImportTest, more_events_than_memory_is_kept_for_are_refused_with_a_share_of_the_steps) {
  std::string text = R"({"traceEvents": [)";
  const std::string name(5000, 'x');
  for (int i = 0; i < 60'000; ++i)
    text += fmt::format(R"({{"ph": "X", "cat": "cpu_op", "name": "{}{}", "ts": {}}},)", i, name, i);
  text.back() = ']';
  write_gz("many.json.gz", text + "}");
  try {
    import_job({.paths = {folder_ / "many.json.gz"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("has more events than fit into 400 MiB: 41"));
    EXPECT_THAT(error.advice(),
                testing::ContainsRegex("at most 6[0-9] % as many steps: .*--steps FIRST:LAST"));
  }
}

TEST_F(ImportTest, a_trace_that_is_a_pipe_or_a_link_to_itself_is_refused_or_missing) {
  write_recording({});
  fs::remove(folder_ / "rank-1.trace.json.gz");
  ASSERT_EQ(::mkfifo((folder_ / "rank-1.trace.json.gz").c_str(), 0600), 0);
  EXPECT_THROW(imported(), Error);
  fs::remove(folder_ / "rank-1.trace.json.gz");
  fs::create_symlink("rank-1.trace.json.gz", folder_ / "rank-1.trace.json.gz");
  EXPECT_THAT(imported().recorded->notes, Contains(HasSubstr("is missing")));
}

TEST_F(ImportTest, the_rank_that_ended_first_is_named_before_its_victims) {
  write_recording({});
  change(0, {{"ended", "exception: RuntimeError"}, {"ended_at", 1002.5}});
  change(1, {{"ended", "exit code 3"}, {"ended_at", 1000}});
  const results::Recorded recorded = *imported().recorded;
  ASSERT_EQ(recorded.ends.size(), 2);
  EXPECT_EQ(recorded.ends[0].rank, 1);
  EXPECT_EQ(recorded.ends[1].how, "failed: RuntimeError");
  EXPECT_EQ(recorded.ends[1].after_s, 2.5);
  EXPECT_EQ(recorded.notes.front(),
            "Rank 1 left with exit code 3 after 40 steps; rank 0 then failed: RuntimeError after 40 steps.");
}

TEST_F(ImportTest, ranks_that_ended_alike_are_named_together) {
  write_recording({.world = 4, .late_us = {0, 0, 0, 0}, .group_ranks = "[0, 1, 2, 3]"});
  for (const int rank : {0, 2, 3}) change(rank, {{"ended", "terminated"}, {"ended_at", 1001 + rank}});
  change(1, {{"ended", "finished"}, {"ended_at", 1000}});
  EXPECT_EQ(imported().recorded->notes.front(),
            "Rank 1 finished after 40 steps; ranks 0, 2, 3 then were terminated (SIGTERM) after 40 steps.");
}

TEST_F(ImportTest, unequal_numbers_of_steps_are_said) {
  write_recording({});
  EXPECT_THAT(imported().recorded->ends, testing::IsEmpty());
  json ends = json::parse(read_file(folder_ / "rank-0.json"))["step_end_s"];
  ends.push_back(200);
  change(0, {{"step_end_s", ends}, {"ended_at", 1001}});
  change(1, {{"ended_at", 1000}});
  EXPECT_EQ(imported().recorded->notes.front(),
            "Rank 1 finished after 40 steps; rank 0 then finished after 41 steps.");
}

TEST_F(ImportTest, threads_cores_and_precision_are_those_of_the_ranks) {
  write_recording({});
  for (const int rank : {0, 1}) {
    change(rank, {{"threads", 8},
                  {"cores", 2},
                  {"host_cores", 4},
                  {"precision", "bf16 autocast"},
                  {"hook", rank == 1 ? json("bf16_compress_hook") : json()},
                  {"skipped_updates", 4 * rank},
                  {"has_loader", true}});
  }
  const results::RunRecord record = import_job({.paths = {folder_}});
  const results::Run& run = record.runs.front();
  EXPECT_EQ(record.threads_per_rank, 8);
  EXPECT_EQ(run.threads_per_rank, 8);
  EXPECT_EQ(run.precision, "bf16 autocast");
  EXPECT_EQ(run.recorded->threads, (std::vector<int>{8, 8}));
  EXPECT_EQ(run.recorded->cores, (std::vector<int>{2, 2}));
  EXPECT_EQ(run.recorded->host_cores, 4);
  EXPECT_TRUE(run.recorded->has_hook);
  EXPECT_EQ(run.recorded->skipped_updates, 4);
  EXPECT_EQ(results::to_json(results::from_json(results::to_json(record), "run.json")),
            results::to_json(record));
}

TEST_F(ImportTest, rates_count_what_the_loader_yielded) {
  write_recording({});
  for (const int rank : {0, 1}) change(rank, {{"samples_per_step", 29.5}, {"batch_size", 32}});
  EXPECT_NEAR(imported().images_per_s, 59 / 0.01, 60);
  EXPECT_EQ(imported().batch_per_rank, 32);
}

TEST_F(ImportTest, there_is_no_batch_where_the_loader_and_the_first_layer_disagree) {
  write_recording({});
  change(1, {{"samples_per_step", 1}, {"batch_size", 1}});
  EXPECT_EQ(imported().unit, "step");
  EXPECT_THAT(imported().recorded->notes, Contains(HasSubstr("is not that of the first layer")));
}

TEST_F(ImportTest, a_recording_without_traces_has_the_times_of_its_steps) {
  write_recording({});
  for (const int rank : {0, 1}) {
    change(rank, {{"step_end_s", ends_of({0.01, 0.01, 0.01, 0.01, 0.01})},
                  {"window", nullptr},
                  {"trace", nullptr},
                  {"warnings", {"ended after 6 steps, before its window could begin"}}});
  }
  const results::Run run = imported();
  EXPECT_NEAR(run.images_per_s, 2 * 32 / 0.01, 1);
  EXPECT_FALSE(run.breakdown);
  EXPECT_THAT(run.recorded->notes, Contains("Rank 0: ended after 6 steps, before its window could begin"));
  for (const int rank : {0, 1}) change(rank, {{"step_end_s", {100}}});
  EXPECT_THROW(imported(), Error);
}

TEST_F(ImportTest, a_training_that_slows_down_has_no_warmup_but_a_shift) {
  write_recording({});
  std::vector<double> step_s;
  for (int i = 0; i < 200; ++i) step_s.push_back((i < 100 ? 0.006 : 0.016) + 1e-5 * (i * 7 % 5));
  for (const int rank : {0, 1}) change(rank, {{"step_end_s", ends_of(step_s)}});
  const results::Run run = imported();
  EXPECT_EQ(run.warmup_steps, 3);
  EXPECT_THAT(run.unsettled, HasSubstr("level shift"));
  EXPECT_THAT(run.recorded->notes, Contains(HasSubstr("From step 101 on a step takes 2.66 times as long")));
}

TEST_F(ImportTest, one_rank_alone_completes_speed_up_and_factors) {
  results::RunRecord record = import_job({.paths = write_traces({.late_us = {0, 3000}})});
  const results::RunRecord alone =
      import_job({.paths = write_traces({.world = 1, .transfer_us = 0, .late_us = {0}})});
  EXPECT_EQ(alone.runs.front().strategy, results::kSingle);
  add_alone(record, alone);
  ASSERT_EQ(record.runs.size(), 2);
  const results::Run& run = record.runs.back();
  EXPECT_NEAR(run.speedup.value_or(0), 2 * 13.5 / 18, 0.01);
  ASSERT_TRUE(run.factors);
  const results::EfficiencyFactors& factors = *run.factors;
  EXPECT_NEAR(factors.machine * factors.strategy * factors.transfer * factors.stragglers, *run.efficiency,
              1e-6);
}

/// Packs files of a folder, as tar with gzip or as zip.
void pack(const fs::path& to, const fs::path& folder, bool zip) {
  archive* const out = archive_write_new();
  zip ? archive_write_set_format_zip(out) : archive_write_set_format_pax_restricted(out);
  if (!zip) archive_write_add_filter_gzip(out);
  ASSERT_EQ(archive_write_open_filename(out, to.c_str()), ARCHIVE_OK);
  for (const fs::directory_entry& file : fs::directory_iterator(folder)) {
    const std::string text = read_file(file.path());
    archive_entry* const entry = archive_entry_new();
    archive_entry_set_pathname(entry, ("run/" + file.path().filename().string()).c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(text.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0600);
    archive_write_header(out, entry);
    archive_write_data(out, text.data(), text.size());
    archive_entry_free(entry);
  }
  archive_write_close(out);
  archive_write_free(out);
}

TEST_F(ImportTest, archives_hold_what_folders_do) {
  const fs::path packed = make_private_folder("lockstep-import-packed");
  write_traces({});
  for (const bool recording : {false, true}) {
    if (recording) write_recording({});
    const std::string folder = results::to_json(import_job({.paths = {folder_}}));
    for (const char* name : {"a.zip", "a.tar.gz"}) {
      pack(packed / name, folder_, std::string(name).ends_with("zip"));
      EXPECT_EQ(results::to_json(import_job({.paths = {packed / name}})), folder) << name;
    }
  }
  fs::remove_all(packed);
}

TEST_F(ImportTest, folders_of_tensorboard_have_runs_and_windows) {
  const std::vector<json> traces = made_traces({});
  fs::create_directories(folder_ / "logs/run1");
  for (const char* name : {"a_12.1694128201545", "a_12.1694128201999", "b_13.1694128201545"})
    write(fmt::format("logs/run1/{}.pt.trace.json", name), traces[name[0] == 'a' ? 0 : 1].dump());
  const results::RunRecord record = import_job({.paths = {folder_ / "logs"}});
  EXPECT_EQ(record.runs.front().recorded->ranks, (std::vector<int>{0, 1}));
  EXPECT_THAT(record.runs.front().recorded->notes, Contains(HasSubstr("1 earlier window")));
  fs::create_directories(folder_ / "logs/run2");
  write("logs/run2/rank0.json", traces[0].dump());
  EXPECT_THROW(import_job({.paths = {folder_ / "logs"}}), Error);
}

TEST_F(ImportTest, hosts_of_ranks_without_a_trace_are_not_known) {
  EXPECT_EQ(import_job({.paths = write_traces({})}).runs.front().hosts, 1);
  EXPECT_EQ(import_job({.paths = {write_traces({})[0]}}).runs.front().hosts, 0);
}

TEST_F(ImportTest, what_is_not_of_one_job_is_refused) {
  const std::vector<fs::path> paths = write_traces({});
  EXPECT_THROW(import_job({.paths = {paths[0], paths[0]}}), Error);
  EXPECT_THROW(import_job({.paths = {}}), ConfigError);
  EXPECT_THROW(import_job({.paths = {folder_ / "none.json"}}), Error);
}

}  // namespace
}  // namespace lockstep::recordings
