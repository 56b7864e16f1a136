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

/// Of a machine that does much else.
constexpr double kPatience_s = 100;

std::vector<std::string> command(const KilledTraining& training, const std::string& checkpoint) {
  return {"lockstep",
          "train",
          "--model",
          "lenet5",
          "--batch",
          "8",
          "--strategy",
          training.strategy,
          "--bucket-mb",
          "0.05",
          "--ranks",
          std::to_string(training.ranks),
          "--epochs",
          std::to_string(training.epochs),
          "--schedule",
          "cosine",
          "--eval",
          "--threads",
          "1",
          "--timeout",
          "10",
          "--quiet",
          "--checkpoint",
          checkpoint,
          "--checkpoint-every",
          "3"};
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

void expect_same_bits_after_kills(const KilledTraining& training) {
  const ScratchFolder folder;
  const std::string undisturbed = folder.path("undisturbed.pt");
  const std::string killed = folder.path("killed.pt");
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
  // A kill may come after the end where the machine is fast and the moment late.
  EXPECT_GT(in_the_middle, 0);

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
