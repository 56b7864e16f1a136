#include "cli/killed_training.h"

#include <csignal>
#include <fstream>
#include <iterator>
#include <random>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lockstep::test {
namespace {

/// Generous, for a machine that does much else.
constexpr double kPatience_s = 300;

std::vector<std::string> command(const KilledTraining& training, const std::string& checkpoint) {
  std::vector<std::string> words{"lockstep",  "train", "--model",    "lenet5",
                                 "--kernels", "fused", "--strategy", training.strategy};
  const auto add = [&](const std::string& flag, const std::string& value) {
    words.push_back(flag);
    words.push_back(value);
  };
  add("--ranks", std::to_string(training.ranks));
  add("--epochs", std::to_string(training.epochs));
  add("--batch", training.on_digits ? std::to_string(100 / training.ranks) : "8");
  if (training.on_digits) add("--data", LOCKSTEP_SOURCE_DIR "/data/digits");
  add("--bucket-mb", "0.05");
  add("--schedule", "cosine");
  add("--threads", "1");
  add("--timeout", "10");
  add("--checkpoint", checkpoint);
  add("--checkpoint-every", "3");
  words.insert(words.end(), {"--eval", "--quiet"});
  return words;
}

std::string bytes_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Changes with every checkpoint; 0: there is none.
ino_t identity_of(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 ? facts.st_ino : 0;
}

/// Whether a checkpoint was written since `before`, before the program ended.
bool wait_for_checkpoint(const Program& program, const std::string& path, ino_t before) {
  for (int i = 0; i < 60'000; ++i) {
    if (identity_of(path) != before) return true;
    if (i % 500 == 499 && program.descendants().empty()) return false;
    ::usleep(1000);
  }
  return false;
}

/// Kills the parent, or one of its ranks.
void kill_somebody(const Program& program, int ranks, unsigned chance) {
  const int rank = static_cast<int>(chance % static_cast<unsigned>(ranks + 1));
  if (rank == ranks) return program.signal(SIGKILL);
  // With rank 0 its guardian, which would only watch.
  for (const pid_t pid : program.descendants("LOCKSTEP_RANK", std::to_string(rank))) {
    // Never a made-up process: kill() takes -1 for all there are.
    if (pid > 1) ::kill(pid, SIGKILL);
  }
}

}  // namespace

std::string name_of(const testing::TestParamInfo<KilledTraining>& info) {
  return info.param.strategy + (info.param.on_digits ? "_on_digits" : "");
}

void expect_same_bits_after_kills(const KilledTraining& training) {
  const ScratchFolder folder;
  const std::string undisturbed = folder.path("undisturbed.safetensors");
  const std::string killed = folder.path("killed.safetensors");
  const Finished whole = run(command(training, undisturbed), {}, kPatience_s);
  ASSERT_EQ(whole.exit_code, 0) << whole.error;

  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 chance(seed);
  int in_the_middle = 0;
  for (int i = 0; i < training.kills; ++i) {
    std::vector<std::string> next = command(training, killed);
    const ino_t before = identity_of(killed);
    if (before != 0) next.insert(next.end(), {"--resume", killed});
    Program program(next);
    // None is written where all had been trained.
    if (!wait_for_checkpoint(program, killed, before)) break;
    ::usleep(chance() % 30'000);
    kill_somebody(program, training.ranks, chance());
    if (program.wait() != 0) ++in_the_middle;
    ASSERT_TRUE(program.nothing_left_behind());
  }
  EXPECT_GE(in_the_middle, training.least_kills);

  std::vector<std::string> last = command(training, killed);
  last.insert(last.end(), {"--resume", killed});
  const Finished rest = run(last, {}, kPatience_s);
  ASSERT_EQ(rest.exit_code, 0) << rest.error;
  EXPECT_TRUE(bytes_of(killed) == bytes_of(undisturbed)) << training.strategy;
  EXPECT_GT(bytes_of(killed).size(), 200'000U);
  // The last line is a hash of all parameters.
  EXPECT_EQ(rest.output.substr(rest.output.rfind("parameters ")),
            whole.output.substr(whole.output.rfind("parameters ")));
}

}  // namespace lockstep::test
