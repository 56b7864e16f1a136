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

struct Refused {
  std::vector<std::string> flags;
  std::vector<std::string> texts;
};

TEST(BadInputTest, is_refused_with_what_is_wrong_and_what_to_do) {
  const test::ScratchFolder folder;
  const std::vector<Refused> cases{
      {{"--model", "resnt50"}, {"unknown model 'resnt50'", "did you mean resnet50", "lockstep info models"}},
      {{"--strategy", "dpp"}, {"unknown strategy 'dpp'", "did you mean ddp"}},
      {{"--backend", "glo"}, {"unknown backend 'glo'", "did you mean gloo"}},
      {{"--kernels", "fussed"}, {"unknown kernels 'fussed'", "did you mean fused", "lockstep info kernels"}},
      {{"--precision", "fp23"}, {"unknown precision 'fp23'", "fp32"}},
      {{"--input", "devise"}, {"unknown input 'devise'", "device"}},
      {{"--launch", "thread"}, {"--launch takes auto, processes or threads, not 'thread'"}},
      {{"--bind", "cores"}, {"--bind takes core, numa or none, not 'cores'"}},
      {{"--batch", "0"}, {"--batch takes a whole number from 1 to 1000000, not '0'"}},
      {{"--ranks", "1,-2"}, {"--ranks takes a whole number from 1 to 1000000, not '-2'"}},
      {{"--steps", "0"}, {"--steps takes a whole number from 1 to"}},
      {{"--warmup", "-1"}, {"--warmup takes a whole number from 0 to"}},
      {{"--precision-target", "2 percent"},
       {"--precision-target takes a share above 0 and below 1 (2% or 0.02), not '2 percent'"}},
      {{"--precision-target", "0"}, {"--precision-target takes a share above 0 and below 1"}},
      {{"--max-time", "0"}, {"--max-time takes a time above 0 and up to 1000000 seconds (30, 30s or 5min)"}},
      {{"--verify-every", "0"}, {"--verify-every takes a whole number from 1 to 1000000, not '0'"}},
      {{"--verify-every", "-3"}, {"--verify-every takes a whole number from 1 to 1000000, not '-3'"}},
      {{"--verify-every", "5", "--ranks", "1"}, {"--verify-every finds nothing to compare", "2 ranks"}},
      {{"--verify-every", "5", "--ranks", "2", "--strategy", "independent"}, {"finds nothing to compare"}},
      {{"--tune", "bucket"}, {"--tune takes buckets, not 'bucket'"}},
      {{"--tune", "buckets", "--ranks", "1"}, {"--tune buckets finds nothing to tune", "2 ranks"}},
      {{"--tune", "buckets", "--ranks", "2", "--strategy", "bsp"}, {"nothing to tune", "replicated"}},
      {{"--tune", "buckets", "--bucket-mb", "1,5"}, {"--tune buckets and --bucket-mb exclude each other"}},
      {{"--tune", "buckets", "--tune-budget", "0"}, {"--tune-budget takes a time above 0"}},
      {{"--tune-budget", "5"}, {"--tune-budget means nothing without --tune"}},
      {{"--tune", "buckets", "--repeat", "2"}, {"--tune could find another cap in every launch"}},
      {{"--repeat", "0"}, {"--repeat takes a whole number from 1 to 1000"}},
      {{"--repeat", "2", "--launch", "threads"}, {"--repeat", "--append"}},
      {{"--append"}, {"--append needs --json FILE"}},
      {{"--baseline", "dpp"}, {"unknown strategy 'dpp'", "did you mean ddp"}},
      {{"--baseline", "ddp:x"}, {"'x' is not a number of ranks", "ddp:1"}},
      {{"--baseline", "ddp:64", "--ranks", "1,2"}, {"--baseline ddp:64 is not among the rows"}},
      {{"--global-batch", "7", "--ranks", "1,2"}, {"--global-batch 7 cannot be split", "8 for example"}},
      {{"--global-batch", "8", "--batch", "8"}, {"exclude each other"}},
      {{"--trace", folder.path("missing/t.json")}, {"--trace", "No such file"}},
      {{"--threads", "-1"}, {"--threads takes a whole number from 1 to"}},
      {{"--threads", "4096"}, {"--threads"}},
      {{"--bucket-mb", "0"},
       {"--bucket-mb takes a size above 0 and up to 1048576 MiB (25, 25MB or 1GB), not '0'"}},
      {{"--timeout", "0"}, {"--timeout takes a time from 1 to 1000000 seconds"}},
      {{"--image-size", "3"}, {"resnet50 takes images from 32x32"}},
      {{"--backend", "thread", "--launch", "processes"}, {"--backend thread", "--launch threads"}},
      {{"--backend", "mpi", "--launch", "threads"}, {"--backend mpi"}},
      {{"--ranks", "two"}, {"--ranks"}},
      {{"--no-such-flag"}, {"--no-such-flag"}},
      {{"--model", "lenet5", "--json", folder.path("missing/a.json")},
       {"--json", "missing/a.json", "No such file"}},
      {{"--model", "lenet5", "--csv", folder.path("")}, {"--csv", "folder"}},
      {{"--batch", "1000000"}, {"resnet50", "are available", "Use --batch "}},
      {{"--device", "gpu"}, {"unknown device 'gpu'", "did you mean cuda", "lockstep info devices"}},
      {{"--device", "cpuu"}, {"unknown device 'cpuu'", "did you mean cpu"}},
      {{"--device", "cuda:0"}, {"--device cuda:0", "CUDA_VISIBLE_DEVICES=0"}},
      {{"--device", "cpu", "--share-device"}, {"--share-device", "--device cpu has none"}},
      {{"--device", "cpu", "--backend", "nccl"}, {"nccl", "--device cpu has none", "gloo"}},
      {{"--device", "cpu", "--cuda-graph"}, {"--cuda-graph", "Use --device cuda"}},
  };
  for (const Refused& refused : cases) {
    const test::Finished finished = bench(refused.flags);
    EXPECT_EQ(finished.exit_code, 2) << refused.flags.front() << "\n" << finished.error;
    for (const std::string& text : refused.texts) EXPECT_THAT(finished.error, HasSubstr(text));
    EXPECT_EQ(finished.output, "") << refused.flags.front();
  }
  EXPECT_EQ(folder.files(), 0u);
}

// Whether or not there is a GPU: what is wrong with the flags is said before what is missing.
TEST(BadInputTest, flags_that_gpus_cannot_have_are_refused_before_they_are_looked_for) {
  const test::ScratchFolder folder;
  const std::vector<Refused> cases{
      {{"--share-device", "--backend", "nccl"}, {"--share-device", "NCCL refuses two ranks on one GPU"}},
      {{"--share-device", "--launch", "threads"},
       {"ddp cannot have several ranks of one process on one GPU"}},
      {{"--share-device", "--backend", "thread"},
       {"ddp cannot have several ranks of one process on one GPU"}},
      {{"--share-device", "--strategy", "data_parallel"}, {"data_parallel needs a GPU for every rank"}},
      {{"--limit"}, {"--limit measures", "processor"}},
      {{"--layers"}, {"--layers", "--device cpu"}},
      {{"--cuda-graph", "--breakdown"}, {"--breakdown stamps the phases"}},
      {{"--cuda-graph", "--trace", folder.path("t.json")}, {"--trace stamps the phases"}},
      {{"--cuda-graph", "--style", "theano"}, {"--style theano stamps the phases"}},
      {{"--cuda-graph", "--layers"}, {"--layers"}},
      {{"--cuda-graph", "--verify-every", "5"}, {"--verify-every"}},
      {{"--cuda-graph", "--accumulate", "2"}, {"--cuda-graph", "--accumulate 2"}},
      {{"--cuda-graph", "--strategy", "horovod"}, {"horovod cannot be recorded with --cuda-graph"}},
      {{"--cuda-graph", "--share-device"}, {"ddp cannot be recorded", "gloo", "--backend nccl"}},
      {{"--cuda-graph", "--backend", "gloo"}, {"ddp cannot be recorded", "gloo", "--backend nccl"}},
      {{"--model", "resnt50"}, {"did you mean resnet50"}},
      {{"--backend", "ncll"}, {"unknown backend 'ncll'", "did you mean nccl"}},
      {{"--strategy", "dpp"}, {"did you mean ddp"}},
  };
  for (const Refused& refused : cases) {
    std::vector<std::string> flags{"--device", "cuda", "--ranks", "2"};
    flags.insert(flags.end(), refused.flags.begin(), refused.flags.end());
    const test::Finished finished = bench(flags);
    EXPECT_EQ(finished.exit_code, 2) << refused.flags.front() << "\n" << finished.error;
    for (const std::string& text : refused.texts) EXPECT_THAT(finished.error, HasSubstr(text));
    EXPECT_EQ(finished.output, "") << refused.flags.front();
  }
  EXPECT_EQ(folder.files(), 0u);
}

TEST(BadInputTest, without_a_gpu_what_is_missing_is_named) {
  for (const std::vector<std::string>& flags : {std::vector<std::string>{"--device", "cuda"},
                                                {"--device", "cuda", "--dry-run"},
                                                {"--backend", "nccl"},
                                                {"--share-device"},
                                                {"--cuda-graph"},
                                                {"--device", "cuda", "--backend", "gloo", "--ranks", "64"}}) {
    std::vector<std::string> command{"--model", "lenet5"};
    command.insert(command.end(), flags.begin(), flags.end());
    const test::Finished finished = bench(command);
    EXPECT_EQ(finished.exit_code, 4) << flags.front() << "\n" << finished.error;
    EXPECT_THAT(finished.error, HasSubstr("--device cuda cannot be used: "));
    EXPECT_EQ(finished.output, "");
  }
  for (const char* command : {"train", "verify"}) {
    const test::Finished finished = test::run({"lockstep", command, "--device", "cuda"});
    EXPECT_EQ(finished.exit_code, 4) << command << "\n" << finished.error;
    EXPECT_THAT(finished.error, HasSubstr("--device cuda cannot be used: "));
  }
}

TEST(BadInputTest, without_a_gpu_auto_means_processors) {
  const test::Finished finished =
      bench({"--model", "lenet5", "--ranks", "1", "--steps", "5", "--device", "auto"});
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
}

TEST(BadInputTest, a_missing_backend_is_said_with_what_to_install) {
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

TEST(BadInputTest, fused_kernels_on_gpus_need_their_plugin) {
  const test::ScratchFolder empty;
  const test::Finished finished = bench({"--model", "resnet18", "--device", "cuda", "--kernels", "fused"},
                                        {{"LOCKSTEP_PLUGIN_PATH", empty.path("")}});
  EXPECT_EQ(finished.exit_code, 4);
  EXPECT_THAT(finished.error, AllOf(HasSubstr("there is no lockstep_cuda_kernels.so in"),
                                    HasSubstr("or use --kernels aten")));
}

TEST(BadInputTest, a_missing_mpirun_is_said_with_what_to_install) {
  const test::Finished finished =
      bench({"--model", "lenet5", "--backend", "mpi"}, {{"PATH", "/nonexistent"}});
  EXPECT_EQ(finished.exit_code, 4);
  EXPECT_THAT(finished.error, AllOf(HasSubstr("mpirun"), HasSubstr("openmpi-bin")));
}

TEST(BadInputTest, a_port_in_use_is_named) {
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

TEST(BadInputTest, more_ranks_than_the_launcher_started_are_refused) {
  const test::Finished finished =
      test::run({"mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", LOCKSTEP_PROGRAM, "bench",
                 "--model", "lenet5", "--backend", "mpi", "--ranks", "4"});
  EXPECT_NE(finished.exit_code, 0);
  EXPECT_THAT(finished.error, HasSubstr("--ranks 4 needs 4 ranks, but mpirun started 2"));
}

TEST(BadInputTest, a_loss_that_is_not_finite_ends_the_run) {
  const test::Finished finished =
      bench({"--model", "lenet5", "--ranks", "2", "--lr", "1e30", "--steps", "20", "--no-controls"});
  EXPECT_EQ(finished.exit_code, 1);
  EXPECT_THAT(finished.error, AllOf(HasSubstr("the loss of rank"), HasSubstr("in step"), HasSubstr("--lr")));
}

}  // namespace
}  // namespace lockstep
