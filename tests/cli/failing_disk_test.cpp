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
/// the disk is mounted; $3: full, nearly_full, read_only, vanished (before the command looks at it) or
/// vanishing (while it runs); then the command. The exit code is the command's, or 99 when it failed and an
/// old file is not what it was.
constexpr const char* kDiskScript = R"sh(
set -e
seed=$1 place=$2 state=$3
shift 3
mount -t tmpfs -o size=8m none "$place"
mkdir "$place/disk" "$place/again"
mount -t tmpfs -o size=512k none "$place/disk"
mount --bind "$place/disk" "$place/again"
cp "$seed"/* "$place/disk"
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
    sleep 1
    umount -l "$place/disk"
    wait $command ;;
  vanished)
    cd "$place"
    umount -l "$place/disk"
    "$@" ;;
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
    seed("page.html", "<footer>Made by lockstep </footer>");
    seed("c.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1 1\"/>");
    seed("c.safetensors", "an older checkpoint");
  }

  void seed(const std::string& name, const std::string& text) {
    std::ofstream(scratch_.path("seed/" + name), std::ios::binary) << text;
  }

  test::Finished run_on(const std::string& state, const Words& command) {
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
    return test::run(words, {{"TMPDIR", "/tmp"}}, 60);
  }

  test::ScratchFolder scratch_;
};

const std::string kDiskRecord = std::string(LOCKSTEP_GOLDEN) + "/record.json";

/// Steps that take some seconds, also where nothing else runs.
constexpr const char* kManySteps = "6000";

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

TEST_F(FailingDiskTest, a_folder_for_temporary_files_that_is_none_is_named) {
  for (const std::string& place : {std::string("/nonexistent"), std::string("/proc")}) {
    Words command = writing_bench({});
    command.insert(command.begin(), "lockstep");
    const test::Finished finished = test::run(command, {{"TMPDIR", place}});
    EXPECT_EQ(finished.exit_code, 2);
    EXPECT_THAT(finished.error, testing::HasSubstr("'" + place + "' cannot hold temporary files: "));
    EXPECT_THAT(finished.error, testing::HasSubstr("Set TMPDIR"));
    // With a file of the user's no other is needed.
    command.insert(command.end(), {"--json", scratch_.path("new.json")});
    EXPECT_EQ(test::run(command, {{"TMPDIR", place}}).exit_code, 0);
    std::filesystem::remove(scratch_.path("new.json"));
  }
}

}  // namespace
}  // namespace lockstep
