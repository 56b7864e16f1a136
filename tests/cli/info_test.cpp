#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

TEST(InfoTest, everything_that_can_be_measured_is_listed) {
  const test::Finished info = test::run({"lockstep", "info"});
  EXPECT_EQ(info.exit_code, 0) << info.error;
  for (const char* text :
       {"LibTorch 2.", "gloo", "mpi", "thread", "resnet50", "25557032", "ddp", "independent", "device"}) {
    EXPECT_THAT(info.output, HasSubstr(text));
  }
  EXPECT_THAT(info.output, testing::Not(HasSubstr("not usable")));
}

TEST(InfoTest, a_backend_that_is_not_there_is_listed_with_what_to_install) {
  const test::ScratchFolder empty;
  const test::Finished info =
      test::run({"lockstep", "info", "backends"}, {{"LOCKSTEP_PLUGIN_PATH", empty.path("")}});
  EXPECT_EQ(info.exit_code, 0);
  EXPECT_THAT(info.output, HasSubstr("thread       usable"));
  EXPECT_THAT(info.output, HasSubstr("gloo         not usable"));
  EXPECT_THAT(info.output, HasSubstr("mpi          not usable"));
}

TEST(InfoTest, help_and_version_are_results) {
  const test::Finished help = test::run({"lockstep", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.output, HasSubstr("Exit codes"));
  const test::Finished bench_help = test::run({"lockstep", "bench", "--help"});
  EXPECT_EQ(bench_help.exit_code, 0);
  EXPECT_THAT(bench_help.output, HasSubstr("Examples:"));
  const test::Finished version = test::run({"lockstep", "--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.output, testing::StartsWith("lockstep "));
}

}  // namespace
}  // namespace lockstep
