// Commands that are right, where what they need is missing or taken.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/program.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;

test::Finished bench(std::vector<std::string> flags, const test::Program::Environment& environment = {}) {
  flags.insert(flags.begin(), {"lockstep", "bench"});
  return test::run(flags, environment);
}

TEST(SurroundingsTest, a_missing_backend_is_said_with_what_to_install) {
  const test::ScratchFolder empty;
  for (const std::string backend : {"gloo", "mpi"}) {
    const test::Finished finished =
        bench({"--model", "lenet5", "--backend", backend}, {{"LOCKSTEP_PLUGIN_PATH", empty.path("")}});
    EXPECT_EQ(finished.exit_code, 4);
    EXPECT_THAT(finished.error, HasSubstr("backend " + backend + " cannot be used"));
  }
  const test::Finished rest =
      bench({"--model", "lenet5", "--backend", "thread", "--ranks", "2", "--steps", "5"},
            {{"LOCKSTEP_PLUGIN_PATH", empty.path("")}});
  EXPECT_EQ(rest.exit_code, 0) << rest.error;
}

TEST(SurroundingsTest, fused_kernels_on_gpus_need_their_plugin) {
  const test::ScratchFolder empty;
  const test::Finished finished = bench({"--model", "resnet18", "--device", "cuda", "--kernels", "fused"},
                                        {{"LOCKSTEP_PLUGIN_PATH", empty.path("")}});
  EXPECT_EQ(finished.exit_code, 4);
  EXPECT_THAT(finished.error, AllOf(HasSubstr("there is no lockstep_cuda_kernels.so in"),
                                    HasSubstr("or use --kernels aten")));
}

TEST(SurroundingsTest, a_missing_mpirun_is_said_with_what_to_install) {
  const test::Finished finished =
      bench({"--model", "lenet5", "--backend", "mpi"}, {{"PATH", "/nonexistent"}});
  EXPECT_EQ(finished.exit_code, 4);
  EXPECT_THAT(finished.error, AllOf(HasSubstr("mpirun"), HasSubstr("openmpi-bin")));
}

TEST(SurroundingsTest, a_working_folder_that_is_gone_is_named) {
  const test::ScratchFolder folder;
  const test::Finished finished =
      test::run({"sh", "-c", R"(mkdir "$1" && cd "$1" && rmdir "$1" && exec "$0" bench --model lenet5)",
                 LOCKSTEP_PROGRAM, folder.path("gone")});
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_THAT(finished.error, testing::StartsWith("lockstep: error: the working folder is gone"));
}

TEST(SurroundingsTest, a_port_in_use_is_named) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  socklen_t length = sizeof address;
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  const std::string port = std::to_string(ntohs(address.sin_port));

  const test::Finished finished = bench({"--model", "lenet5", "--ranks", "2"}, {{"RANK", "0"},
                                                                                {"WORLD_SIZE", "2"},
                                                                                {"LOCAL_RANK", "0"},
                                                                                {"LOCAL_WORLD_SIZE", "2"},
                                                                                {"MASTER_ADDR", "127.0.0.1"},
                                                                                {"MASTER_PORT", port}});
  ::close(listener);
  EXPECT_NE(finished.exit_code, 0);
  EXPECT_THAT(finished.error, AllOf(HasSubstr(port), HasSubstr("in use")));
}

TEST(SurroundingsTest, more_ranks_than_the_launcher_started_are_refused) {
  const test::Finished finished =
      test::run({"mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", LOCKSTEP_PROGRAM, "bench",
                 "--model", "lenet5", "--backend", "mpi", "--ranks", "4"});
  EXPECT_NE(finished.exit_code, 0);
  EXPECT_THAT(finished.error, HasSubstr("--ranks 4 needs 4 ranks, but mpirun started 2"));
}

TEST(SurroundingsTest, a_loss_that_is_not_finite_ends_the_run) {
  const test::Finished finished =
      bench({"--model", "lenet5", "--ranks", "2", "--lr", "1e30", "--steps", "20", "--no-controls"});
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_THAT(finished.error, AllOf(HasSubstr("the loss of rank"), HasSubstr("in step"), HasSubstr("--lr")));
}

}  // namespace
}  // namespace lockstep
