#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/file.h"

#include "cli/in_process.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kRecorded = std::string(LOCKSTEP_GOLDEN) + "/topology/";

test::Finished topo(std::vector<std::string> words) {
  words.insert(words.begin(), {"lockstep", "topo"});
  return test::run_here(words);
}

TEST(TopoTest, this_machine_is_shown_and_recorded) {
  const test::ScratchFolder folder;
  const test::Finished shown = topo({});
  EXPECT_EQ(shown.exit_code, 0) << shown.error;
  EXPECT_THAT(shown.output, AllOf(HasSubstr("Processors\n"), HasSubstr("Memory\n"), HasSubstr("NUMA node")));
  const std::string file = folder.path("this.json");
  const test::Finished recorded = topo({"--json", file});
  EXPECT_EQ(recorded.exit_code, 0) << recorded.error;
  EXPECT_EQ(recorded.output, "");
  EXPECT_EQ(topo({"--from", file}).output, shown.output);
  EXPECT_EQ(topo({"--from", file, "--json", "-"}).output, read_file(file));
}

TEST(TopoTest, a_recorded_machine_is_shown_as_it_was) {
  for (const std::string name : {"v100x8", "nvswitch8"}) {
    EXPECT_EQ(topo({"--from", kRecorded + name + ".json"}).output, read_file(kRecorded + name + ".txt"));
  }
  EXPECT_EQ(topo({"--from", kRecorded + "two_gpus.xml"}).output, read_file(kRecorded + "two_gpus.txt"));
  EXPECT_THAT(topo({"--from", kRecorded + "two_sockets.xml", "--markdown"}).output,
              HasSubstr("| package | cores |"));
}

TEST(TopoTest, what_cannot_be_shown_is_said) {
  const test::ScratchFolder folder;
  const test::Finished missing = topo({"--from", kRecorded + "missing.json"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.error, AllOf(HasSubstr("missing.json"), HasSubstr("No such file")));
  const std::map<std::string, std::string> broken{
      {"empty.json", ""},
      {"cut.json", read_file(kRecorded + "v100x8.json").substr(0, 900)},
      {"cut.xml", read_file(kRecorded + "two_gpus.xml").substr(0, 3000)},
      {"page.xml", "<html><body>not found</body></html>"},
      {"other.json", "{\"rows\": []}"},
      {"matrix.txt", "        GPU0    GPU1\nGPU0     X      NV1\n"}};
  for (const auto& [name, text] : broken) {
    std::ofstream(folder.path(name)) << text;
    const test::Finished finished = topo({"--from", folder.path(name)});
    EXPECT_EQ(finished.exit_code, 1) << name;
    EXPECT_THAT(finished.error, AllOf(StartsWith("lockstep: error: '" + folder.path(name) + "'")));
    EXPECT_EQ(finished.output, "");
  }
  EXPECT_THAT(topo({"--from", std::string(LOCKSTEP_GOLDEN) + "/record.json"}).error,
              HasSubstr("lockstep show"));
}

TEST(TopoTest, links_of_loopback_and_shared_memory_are_measured_drawn_and_shown_again) {
  const test::ScratchFolder folder;
  const std::string json = folder.path("network.json"), svg = folder.path("network.svg");
  for (const auto& [backend, kind] : {std::pair{"gloo", "over loopback"}, {"mpi", "by shared memory"}}) {
    const test::Finished measured =
        test::run({"lockstep", "topo", "--measure", "--ranks", "3", "--threads", "1", "--pair-time", "0.05",
                   "--backend", backend, "--json", json, "--svg", svg});
    EXPECT_EQ(measured.exit_code, 0) << measured.error;
    EXPECT_THAT(measured.output, AllOf(HasSubstr("3 ranks on 1 host"), HasSubstr(kind),
                                       HasSubstr("Latency in us"), Not(HasSubstr("Warning"))));
    EXPECT_THAT(measured.error, AllOf(HasSubstr("every pair alone"), HasSubstr("network.svg")));
    EXPECT_THAT(read_file(svg), AllOf(HasSubstr("socket 0"), HasSubstr("What connects the ranks")));
    EXPECT_EQ(topo({"--from", json}).output, measured.output);
    EXPECT_EQ(test::run_here({"lockstep", "show", json}).output, measured.output);
    EXPECT_THAT(test::run_here({"lockstep", "report", json, "-o", "-"}).output,
                HasSubstr("What the network gives"));
  }
}

TEST(TopoTest, a_plan_of_links_says_how_long_it_takes) {
  EXPECT_EQ(topo({"--measure", "--ranks", "16", "--threads", "1", "--dry-run"}).output,
            "16 ranks over gloo: 120 pairs, about 1 min 00 s\n");
}

TEST(TopoTest, help_has_examples) {
  const test::Finished help = topo({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.output, AllOf(HasSubstr("Examples:"), HasSubstr("--from"), HasSubstr("lstopo")));
}

// With tests/topology/fake_nvml.cpp where the loader finds NVIDIA's library.
TEST(FakeNvmlTopoTest, gpus_of_the_driver_are_shown_and_stand_in_the_header_of_results) {
  const test::ScratchFolder folder;
  test::Program::Environment environment{{"LD_LIBRARY_PATH", LOCKSTEP_FAKE_NVML_FOLDER},
                                         {"LOCKSTEP_FAKE_NVML", "dgx1"}};
  const std::string row = "GPU0     X      NV1     NV1     NV2     NV2     SYS     SYS     SYS ";
  const test::Finished shown = test::run({"lockstep", "topo"}, environment);
  EXPECT_EQ(shown.exit_code, 0) << shown.error;
  EXPECT_THAT(shown.output, AllOf(HasSubstr(", 8 GPUs\n"), HasSubstr(row), HasSubstr("Tesla V100-SXM2-16GB"),
                                  HasSubstr("Driver 580.65.06, for CUDA up to 13.1.")));

  const std::string file = folder.path("result.json");
  const test::Finished bench =
      test::run({"lockstep", "bench", "--model", "lenet5", "--batch", "2", "--backend", "thread", "--ranks",
                 "1", "--steps", "5", "--no-controls", "--json", file},
                environment);
  EXPECT_EQ(bench.exit_code, 0) << bench.error;
  EXPECT_THAT(bench.output, AllOf(HasSubstr("* GPU driver: 580.65.06\n"), HasSubstr("    " + row)));
  EXPECT_THAT(test::run_here({"lockstep", "show", file}).output, HasSubstr("    " + row));

  environment["LOCKSTEP_FAKE_NVML"] = "no_driver";
  EXPECT_THAT(test::run({"lockstep", "topo"}, environment).output,
              AllOf(HasSubstr("GPUs: the NVIDIA driver does not answer: Driver Not Loaded."),
                    Not(HasSubstr("GPU0"))));
}

}  // namespace
}  // namespace lockstep
