#include <gmock/gmock.h>

#include "lockstep/base/file.h"
#include "lockstep/results/files/record_json.h"
#include "lockstep/results/files/system_json.h"
#include "lockstep/results/record/machine_warnings.h"
#include "lockstep/results/tables/tables.h"

#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using topology::PathKind;

class HostsWithGpus : public testing::Test {
 protected:
  HostsWithGpus() {
    Machine machine;
    machine.map = system_from_json(read_file(LOCKSTEP_GOLDEN "/topology/v100x8.json"), "v100x8").map;
    machine.map.driver_version = "580.65.06";
    for (const char* host : {"node1", "node2", "node3"}) {
      machine.host = host;
      machines_.push_back(machine);
    }
  }

  /// The only one there is.
  std::string difference() const {
    const std::vector<Warning> warnings = host_differences(machines_);
    return warnings.size() == 1 ? warnings[0].text : std::to_string(warnings.size()) + " warnings";
  }

  std::vector<Machine> machines_;
};

TEST_F(HostsWithGpus, hosts_that_are_alike_are_not_mentioned) {
  EXPECT_THAT(host_differences(machines_), IsEmpty());
  EXPECT_THAT(host_differences({machines_[0]}), IsEmpty());
  EXPECT_THAT(host_differences({}), IsEmpty());
  // Places of devices on the bus may differ.
  machines_[1].map.devices[0].pci_bus_id = "0000:99:00.0";
  EXPECT_THAT(host_differences(machines_), IsEmpty());
}

TEST_F(HostsWithGpus, a_host_whose_links_are_down_is_named_with_the_paths) {
  auto& paths = machines_[0].map.paths;
  paths[0][1] = paths[1][0] = {PathKind::kSwitch, 0};
  EXPECT_EQ(difference(), "node1 is not like node2: paths: GPU0-GPU1 PIX instead of NV1.");
  for (size_t other = 2; other < 7; ++other) paths[0][other] = {PathKind::kNode, 0};
  EXPECT_THAT(difference(),
              AllOf(HasSubstr("GPU0-GPU4 NODE instead of NV2 and 2 more."), Not(HasSubstr("GPU0-GPU5"))));
}

TEST_F(HostsWithGpus, a_host_with_fewer_or_other_gpus_or_another_driver_is_named) {
  auto& map = machines_[2].map;
  map.devices.erase(map.devices.begin() + 7);
  map.paths.erase(map.paths.begin() + 7);
  for (auto& row : map.paths) row.erase(row.begin() + 7);
  EXPECT_EQ(difference(), "node3 is not like node1: GPUs: 7 x V100 instead of 8 x V100.");
  machines_[2].map = machines_[0].map;
  machines_[2].map.devices[3].name = "P100";
  EXPECT_THAT(difference(), HasSubstr("3 x V100, 1 x P100, 4 x V100 instead of 8 x V100"));
  machines_[2].map = machines_[0].map;
  machines_[2].map.driver_version = "535.54.03";
  EXPECT_EQ(difference(), "node3 is not like node1: GPU driver: 535.54.03 instead of 580.65.06.");
  machines_[2].map = machines_[0].map;
  machines_[2].map.devices[11].label = "mlx5_4";
  EXPECT_THAT(difference(), HasSubstr("network devices: mlx5_2, mlx5_0, mlx5_3, mlx5_4 instead of"));
}

TEST_F(HostsWithGpus, a_host_without_any_is_named_and_hosts_that_have_none_at_all_are_not) {
  machines_[0].map = {};
  EXPECT_THAT(difference(), HasSubstr("node1 is not like node2: GPUs: none instead of 8 x V100"));
  for (Machine& machine : machines_) machine.map = {};
  EXPECT_THAT(host_differences(machines_), IsEmpty());
}

TEST_F(HostsWithGpus, the_header_shows_the_matrix_once_and_says_who_else_has_it) {
  RunRecord record = described_record();
  record.machines = machines_;
  auto& paths = record.machines[2].map.paths;
  paths[0][1] = paths[1][0] = {PathKind::kSwitch, 0};
  const std::string text = header_text(record);
  const std::string first = "    GPU0     X      NV1     NV1     NV2     NV2     SYS";
  EXPECT_THAT(text, AllOf(HasSubstr("* GPU driver: 580.65.06\n"), HasSubstr(first),
                          HasSubstr("* Topology: as of node1\n"),
                          HasSubstr("    GPU0     X      PIX     NV1     NV2     NV2     SYS")));
  EXPECT_EQ(text.find(first), text.rfind(first));
  record.machines.resize(1);
  record.machines[0].map = {};
  EXPECT_THAT(header_text(record), Not(HasSubstr("Topology")));
}

TEST_F(HostsWithGpus, a_result_keeps_the_topology_of_every_host) {
  RunRecord record = described_record();
  record.machines = machines_;
  const RunRecord again = from_json(to_json(record), "a.json");
  ASSERT_EQ(again.machines.size(), 3u);
  EXPECT_EQ(again.machines[2].map.paths, machines_[2].map.paths);
  EXPECT_EQ(again.machines[2].map.driver_version, "580.65.06");
  EXPECT_THAT(host_differences(again.machines), IsEmpty());
  EXPECT_EQ(header_text(again), header_text(record));
}

}  // namespace
}  // namespace lockstep::results
