#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lockstep/launch/local_processes.h"
#include "lockstep/results/files/record_json.h"

#include "cli/program.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Command = std::vector<std::string>;

/// Ranks that are started by hand, with torchrun's variables.
class MeetingProgramTest : public testing::Test {
 protected:
  static Command bench(const Command& more = {}) {
    Command command{"lockstep", "bench", "--model",  "lenet5", "--batch",      "2",
                    "--steps",  "2",     "--warmup", "1",      "--no-controls"};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  test::Program::Environment rank(int rank, int world) const {
    return {{"RANK", std::to_string(rank)},
            {"WORLD_SIZE", std::to_string(world)},
            {"MASTER_ADDR", "127.0.0.1"},
            {"MASTER_PORT", port_}};
  }

  /// Waits until rank 0 hosts the job's server.
  void wait_for_server() const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(std::stoi(port_)));
    for (int waits = 0; waits < 6000; ++waits) {
      const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const bool listens = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
      ::close(fd);
      if (listens) return;
      ::usleep(10'000);
    }
    ADD_FAILURE() << "nobody listens on port " << port_;
  }

  std::string port_ = std::to_string(20000 + ::getpid() % 10000);
};

TEST_F(MeetingProgramTest, an_error_of_one_rank_is_printed_there_and_ends_rank_0_at_once) {
  test::Program first(bench({"--join-timeout", "100"}), rank(0, 2));
  wait_for_server();
  test::Program second(bench({"--threads", "4096"}), rank(1, 2));
  EXPECT_EQ(second.wait(60), 2);
  EXPECT_THAT(second.error(), AllOf(HasSubstr("rank 1 (host "), HasSubstr("--threads 4096")));
  EXPECT_EQ(first.wait(60), 2);
  EXPECT_THAT(first.error(),
              AllOf(HasSubstr("rank 1 (host "), HasSubstr("failed while starting: --threads 4096")));
}

TEST_F(MeetingProgramTest, so_does_a_flag_that_one_rank_does_not_know) {
  test::Program first(bench({"--join-timeout", "100"}), rank(0, 2));
  wait_for_server();
  test::Program second(bench({"--no-such-flag"}), rank(1, 2));
  EXPECT_EQ(second.wait(60), 2);
  EXPECT_THAT(second.error(), HasSubstr("--no-such-flag"));
  EXPECT_EQ(first.wait(60), 2);
  EXPECT_THAT(first.error(), AllOf(HasSubstr("rank 1 (host "), HasSubstr("--no-such-flag")));
}

TEST_F(MeetingProgramTest, ranks_that_do_not_come_are_named_after_the_time_that_the_user_gave) {
  const test::Finished finished = test::run(bench({"--ranks", "2", "--join-timeout", "1"}), rank(0, 3));
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_THAT(finished.error, HasSubstr("only 1 of 3 ranks came within 1 s: ranks 1, 2 did not"));
  EXPECT_EQ(test::run(bench({"--join-timeout", "0"})).exit_code, 2);
}

TEST_F(MeetingProgramTest, two_jobs_of_one_rank_may_have_the_same_port) {
  test::Program one(bench({"--ranks", "1"}), rank(0, 1));
  test::Program other(bench({"--ranks", "1"}), rank(0, 1));
  EXPECT_EQ(one.wait(), 0) << one.error();
  EXPECT_EQ(other.wait(), 0) << other.error();
}

TEST_F(MeetingProgramTest, ranks_of_unequal_hosts_all_use_the_threads_of_the_fullest) {
  const test::ScratchFolder folder;
  const std::string path = folder.path("a.json");
  const Command command = bench({"--ranks", "3", "--json", path});
  std::vector<std::unique_ptr<test::Program>> ranks;
  for (const int number : {2, 1, 0}) {
    auto environment = rank(number, 3);
    environment["LOCAL_RANK"] = number == 2 ? "0" : std::to_string(number);
    environment["LOCAL_WORLD_SIZE"] = number == 2 ? "1" : "2";
    ranks.push_back(std::make_unique<test::Program>(command, environment));
  }
  for (const auto& rank : ranks) EXPECT_EQ(rank->wait(), 0) << rank->error();
  const results::RunRecord record = results::read_record(path);
  const int cores = record.machines.front().cores;
  EXPECT_EQ(record.threads_per_rank, std::max(1, cores / 2));
  ASSERT_EQ(record.rank_cpus.size(), 3u);
  EXPECT_EQ(record.rank_cpus[2], record.rank_cpus[0]);
  if (cores > 1) {
    EXPECT_THAT(ranks.back()->error(), HasSubstr("every rank uses " + std::to_string(cores / 2)));
  }
}

TEST_F(MeetingProgramTest, the_parent_tells_the_error_of_a_rank_that_fails_before_it_meets_the_others) {
  launch::LocalOptions local;
  local.ranks = 2;
  local.program = LOCKSTEP_PROGRAM;
  local.command = bench({"--threads", "4096"});
  const launch::Supervision result = launch::run_local_ranks(local);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.what, HasSubstr("failed while starting: --threads 4096"));
}

/// A command with limits on open files.
Command with_open_files(const std::string& limits, const Command& command) {
  Command all{"sh", "-c", limits + R"( && exec "$@")", "sh", LOCKSTEP_PROGRAM};
  all.insert(all.end(), command.begin() + 1, command.end());
  return all;
}

TEST_F(MeetingProgramTest, the_soft_limit_of_open_files_is_raised) {
  const Command command = bench({"--ranks", "4", "--strategy", "replicated", "--threads", "1"});
  EXPECT_EQ(test::run(with_open_files("ulimit -Sn 14", command)).exit_code, 0);
}

TEST_F(MeetingProgramTest, ranks_that_need_more_open_files_than_allowed_are_refused) {
  const test::Finished finished =
      test::run(with_open_files("ulimit -n 30", bench({"--ranks", "8", "--threads", "1"})));
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_THAT(finished.error, AllOf(HasSubstr("8 ranks need up to "), HasSubstr("this system allows 30")));
}

}  // namespace
}  // namespace lockstep
