#include <csignal>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/tcp_socket.h"
#include "lockstep/launch/child_process.h"

#include "scratch_folder.h"

namespace lockstep::launch {
namespace {

ChildCommand shell(const std::string& script) {
  return {.program = "/bin/sh", .arguments = {"sh", "-c", script}, .environment = {}};
}

TEST(ChildRunTest, tells_how_the_child_ended) {
  EXPECT_EQ(run_child(shell("exit 0")).exit_code, 0);
  EXPECT_EQ(run_child(shell("exit 7")).exit_code, 7);
  const ChildEnd killed = run_child(shell("kill -KILL $$"));
  EXPECT_EQ(killed.exit_code, 128 + SIGKILL);
  EXPECT_FALSE(killed.interrupted_by);
  EXPECT_THROW(run_child({.program = "/no/such/program", .arguments = {"x"}, .environment = {}}), Error);
}

TEST(ChildRunTest, the_output_goes_where_it_was_told) {
  const test::ScratchFolder folder;
  const auto path = folder.path("output");
  {
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    ChildCommand command = shell("echo out; echo error >&2; echo $LOCKSTEP_CHILD_RUN");
    command.environment = {{"LOCKSTEP_CHILD_RUN", "set"}};
    command.output_fd = command.error_fd = file.get();
    EXPECT_EQ(run_child(command).exit_code, 0);
  }
  EXPECT_EQ(read_file(path), "out\nerror\nset\n");
}

TEST(ChildRunTest, a_signal_to_this_process_goes_to_the_child) {
  int ticks = 0;
  const ChildEnd end = run_child(shell("trap 'exit 9' TERM; while :; do sleep 0.05; done"), [&] {
    // Late enough for the trap to be set; a shell without it would end with 128 + SIGTERM.
    if (++ticks == 10) ::kill(::getpid(), SIGTERM);
  });
  EXPECT_EQ(end.exit_code, 9);
  EXPECT_EQ(end.interrupted_by, SIGTERM);
}

}  // namespace
}  // namespace lockstep::launch
