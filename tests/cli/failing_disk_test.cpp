// Commands whose files are on a disk that is full, cannot be written, or goes away: what was there stays.

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/file.h"

#include "cli/program.h"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

/// In a mount namespace of its own. $1: folder of the files that are there before; $2: an empty folder, where
/// the disk is mounted; $3: full, nearly_full, read_only, vanished (before the command looks at it), or
/// vanishing (while it runs), or another command, which is run after the first row; then the command. The
/// exit code is the command's, or 99 when it failed and an old file is not what it was.
constexpr const char* kDiskScript = R"sh(
set -e
seed=$1 place=$2 state=$3
shift 3
mount -t tmpfs -o size=8m none "$place"
mkdir "$place/disk" "$place/again"
mount -t tmpfs -o size=512k none "$place/disk"
mount --bind "$place/disk" "$place/again"
cp -r "$seed"/* "$place/disk"
case $state in
  full) dd if=/dev/zero of="$place/disk/filler" bs=4k 2>/dev/null || true ;;
  nearly_full) dd if=/dev/zero of="$place/disk/filler" bs=4k 2>/dev/null || true; truncate -s -4k "$place/disk/filler" ;;
  read_only) mount -o remount,ro "$place/disk" ;;
esac
mount -o remount,ro "$place"
cd "$place/disk"
before=$(ls -A "$place/again")
set +e
case $state in
  vanishing)
    "$@" & command=$!
    # All of LibTorch's libraries are found by then.
    until grep -qs libtorch_cpu /proc/$command/maps; do sleep 0.1; done
    sleep 1
    umount -l "$place/disk"
    wait $command ;;
  vanished)
    cd "$place"
    umount -l "$place/disk"
    "$@" ;;
  *" "*)
    rm -f "$seed/.error"
    "$@" 2> "$seed/.error" & export command=$!
    while kill -0 $command && ! grep -qs '^\[1/.* took' "$seed/.error"; do sleep 0.02; done 2>/dev/null
    sh -c "$state"
    wait $command
    code=$?
    cat "$seed/.error" >&2
    exit $code ;;
  *) "$@" ;;
esac
code=$?
[ $code = 0 ] && exit 0
for file in "$seed"/*; do
  cmp -s "$file" "$place/again/${file##*/}" || { echo "changed: $file"; code=99; }
done
if [ "$state" != vanishing ] && [ "$before" != "$(ls -A "$place/again")" ]; then
  echo "left behind: $(ls -A "$place/again")"
  code=99
fi
exit $code
)sh";

class FailingDiskTest : public testing::Test {
 protected:
  FailingDiskTest() {
    for (const char* folder : {"seed", "place"}) std::filesystem::create_directory(scratch_.path(folder));
    const std::string record = read_file(std::string(LOCKSTEP_GOLDEN) + "/record.json");
    seed("r.json", record);
    seed("r.csv", read_file(std::string(LOCKSTEP_GOLDEN) + "/everything.csv"));
    seed("t.json", "{\n  \"displayTimeUnit\": \"ms\",\n  \"traceEvents\": []\n}\n");
    seed("m.json", "{\n  \"topology_version\": 1\n}\n");
    seed("train.json", "{\n  \"schema\": \"lockstep training\"\n}\n");
    const std::string page = read_file(std::string(LOCKSTEP_GOLDEN) + "/plots/report.html");
    seed("page.html", page.substr(page.rfind("<footer>")));
    seed("c.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1 1\"/>");
    seed("c.safetensors", "an older checkpoint");
  }

  void seed(const std::string& name, const std::string& text) {
    std::ofstream(scratch_.path("seed/" + name), std::ios::binary) << text;
  }

  test::Finished run_on(const std::string& state, const Words& command, const std::string& tmpdir = "/tmp") {
    Words words{"unshare",
                "-rm",
                "sh",
                "-c",
                kDiskScript,
                "sh",
                scratch_.path("seed"),
                scratch_.path("place"),
                state,
                LOCKSTEP_PROGRAM};
    words.insert(words.end(), command.begin(), command.end());
    return test::run(words, {{"TMPDIR", tmpdir}}, 60);
  }

  test::ScratchFolder scratch_;
};

const std::string kDiskRecord = std::string(LOCKSTEP_GOLDEN) + "/record.json";

/// Steps that take some seconds, also where nothing else runs.
constexpr const char* kManySteps = "3000";

Words writing_bench(const Words& more, const std::string& steps = "3") {
  Words words{"bench",    "--model", "trivial",  "--ranks", "1",         "--no-controls", "--steps", steps,
              "--warmup", "1",       "--launch", "threads", "--backend", "thread",        "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words writing_train(const Words& more) {
  Words words{"train",     "--model", "trivial", "--steps-per-epoch", "1", "--launch", "threads",
              "--backend", "thread",  "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

const std::vector<Words> kWriting{
    writing_bench({"--json", "r.json"}),
    writing_bench({"--json", "r.json", "--csv", "r.csv"}),
    writing_bench({"--csv", "r.csv"}),
    writing_bench({"--trace", "t.json"}),
    writing_bench({"--json", "new.json", "--csv", "new.csv"}),
    writing_train({"--json", "train.json"}),
    writing_train({"--checkpoint", "c.safetensors", "--force"}),
    {"show", kDiskRecord, "--csv", "r.csv"},
    {"report", kDiskRecord, "-o", "page.html"},
    {"plot", kDiskRecord, "--chart", "throughput", "-o", "c.svg"},
    {"topo", "--json", "m.json"},
    {"verify", "--model", "trivial", "--strategy", "ddp", "--ranks", "1", "--export", ".", "--launch",
     "threads", "--backend", "thread"},
};

void expect_one_sentence(const test::Finished& finished, const Words& command, const std::string& reason) {
  std::string line;
  for (const std::string& word : command) line += " " + word;
  EXPECT_TRUE(finished.exit_code == 1 || finished.exit_code == 2) << line << "\n"
                                                                  << finished.exit_code << "\n"
                                                                  << finished.output << finished.error;
  EXPECT_EQ(test::occurrences(finished.error, "lockstep: error: "), 1U) << line << "\n" << finished.error;
  EXPECT_THAT(finished.error, testing::HasSubstr(reason)) << line;
  EXPECT_THAT(finished.error, testing::Not(testing::HasSubstr("filesystem error"))) << line;
}

TEST_F(FailingDiskTest, on_a_full_disk_old_files_stay) {
  for (const Words& command : kWriting)
    expect_one_sentence(run_on("full", command), command, "No space left on device");
}

// There is room for what is tried before the run, but not for what it writes.
TEST_F(FailingDiskTest, on_a_disk_that_becomes_full_old_files_stay) {
  for (const Words& command : kWriting) {
    // Of two files one may have room.
    const auto names = [&](const char* flag) { return std::ranges::find(command, flag) != command.end(); };
    if (names("--json") && names("--csv")) continue;
    const test::Finished finished = run_on("nearly_full", command);
    if (finished.exit_code == 0) continue;
    expect_one_sentence(finished, command, "No space left on device");
  }
  EXPECT_EQ(run_on("nearly_full", kWriting.front()).exit_code, 1);
}

TEST_F(FailingDiskTest, on_a_disk_that_cannot_be_written_old_files_stay) {
  for (const Words& command : kWriting)
    expect_one_sentence(run_on("read_only", command), command, "Read-only file system");
}

/// Names of files on the disk as paths: of a disk that is gone, the current folder still shows the files.
Words with_paths(Words command, const std::string& disk) {
  for (std::string& word : command) {
    if (word.ends_with(".json") || word.ends_with(".csv") || word.ends_with(".html") ||
        word.ends_with(".svg") || word.ends_with(".safetensors"))
      word = word == kDiskRecord ? word : disk + "/" + word;
    if (word == ".") word = disk;
  }
  return command;
}

TEST_F(FailingDiskTest, on_a_disk_that_is_gone_nothing_is_written) {
  for (const Words& command : kWriting) {
    const Words words = with_paths(command, scratch_.path("place/disk"));
    expect_one_sentence(run_on("vanished", words), words, scratch_.path("place/disk"));
  }
}

TEST_F(FailingDiskTest, on_a_disk_that_goes_away_old_files_stay) {
  // Long enough that the disk goes before they end.
  Words long_training = writing_train({"--json", "train.json", "--checkpoint", "c.safetensors", "--force"});
  *(std::ranges::find(long_training, "--steps-per-epoch") + 1) = kManySteps;
  const std::vector<Words> long_commands{
      writing_bench({"--json", "r.json", "--csv", "r.csv", "--trace", "t.json"}, kManySteps), long_training};
  for (const Words& command : long_commands) {
    const Words words = with_paths(command, scratch_.path("place/disk"));
    expect_one_sentence(run_on("vanishing", words), words, "cannot write '");
  }
}

/// A bench of two rows.
Words two_rows(const Words& more, bool processes) {
  Words words{"bench", "--model", "trivial,mlp", "--batch",  "2", "--no-controls", "--threads",
              "1",     "--steps", "50",          "--warmup", "1", "--ranks",       "2"};
  if (!processes) words.insert(words.end(), {"--launch", "threads", "--backend", "thread"});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void expect_tables_then_one_sentence(const test::Finished& finished, const std::string& reason) {
  EXPECT_EQ(finished.exit_code, reason.empty() ? 0 : 1) << finished.error;
  for (const char* model : {"trivial", "mlp"})
    EXPECT_EQ(test::occurrences(finished.output, std::string("Benchmark: ") + model), 1U) << finished.output;
  EXPECT_THAT(finished.output, testing::Not(testing::HasSubstr("INCOMPLETE")));
  EXPECT_EQ(test::occurrences(finished.error, "lockstep: error: "), reason.empty() ? 0U : 1U)
      << finished.error;
  EXPECT_EQ(test::occurrences(finished.error, reason), reason.empty() ? finished.error.size() + 1 : 1U)
      << finished.error;
  EXPECT_THAT(finished.error, testing::Not(testing::HasSubstr("nothing was measured")));
  EXPECT_THAT(finished.error, testing::Not(testing::HasSubstr("while starting")));
}

TEST_F(FailingDiskTest, what_was_measured_is_printed_although_its_file_cannot_be_written) {
  const std::string fill = "dd if=/dev/zero of=filler bs=4k 2>/dev/null; true";
  const std::vector<std::tuple<std::string, Words, std::string>> cases{
      {fill, {"--json", "new.json"}, "cannot write 'new.json': No space left on device"},
      {fill, {"--csv", "new.csv"}, "cannot write 'new.csv': No space left on device"},
      {fill, {"--trace", "new.trace"}, "cannot write 'new.trace': No space left on device"},
      {"rm -rf own; true",
       {"--json", "own/new.json"},
       "cannot write 'own/new.json': No such file or directory"},
      {"rm -rf own; touch own", {"--json", "own/new.json"}, "cannot write 'own/new.json': Not a directory"},
      {"mount -o remount,ro .", {"--json", "new.json"}, "cannot write 'new.json': Read-only file system"},
      {"rm -f new.json; mkfifo new.json",
       {"--json", "new.json"},
       "cannot write 'new.json': nobody reads this"},
      {fill, {"--json", "r.json"}, "cannot write 'r.json': No space left on device"},
      {fill, {}, ""}};
  std::filesystem::create_directory(scratch_.path("seed/own"));
  for (const auto& [event, flags, reason] : cases) {
    SCOPED_TRACE(event + " " + testing::PrintToString(flags));
    const bool processes = flags.empty() || flags.back() == "r.json";
    expect_tables_then_one_sentence(run_on(event, two_rows(flags, processes), reason.empty() ? "." : "/tmp"),
                                    reason);
  }
}

TEST_F(FailingDiskTest, an_interrupted_run_prints_what_its_file_had_no_room_for) {
  Words command = two_rows({"--json", "new.json", "--max-time", "2"}, true);
  *(std::ranges::find(command, "--steps") + 1) = "900000";
  const test::Finished finished =
      run_on("dd if=/dev/zero of=filler bs=4k 2>/dev/null; sleep 1; kill -TERM $command", command);
  EXPECT_EQ(finished.exit_code, 143) << finished.error;
  EXPECT_THAT(finished.output, testing::HasSubstr("Benchmark: trivial"));
  EXPECT_THAT(finished.output, testing::HasSubstr("ddp (unfinished)"));
  EXPECT_EQ(test::occurrences(finished.error, "cannot write 'new.json': No space left"), 1U)
      << finished.error;
}

TEST_F(FailingDiskTest, a_bench_needs_no_folder_for_temporary_files) {
  Words command = writing_bench({});
  command.insert(command.begin(), "lockstep");
  EXPECT_EQ(test::run(command, {{"TMPDIR", "/nonexistent"}}).exit_code, 0);
  const test::Finished refused =
      test::run({"lockstep", "compare", "--ranks", "1", "--"}, {{"TMPDIR", "/nonexistent"}});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.error, testing::HasSubstr("'/nonexistent' cannot hold temporary files: "));
  EXPECT_THAT(refused.error, testing::HasSubstr("Set TMPDIR"));
}

}  // namespace
}  // namespace lockstep
