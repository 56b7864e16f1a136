#include "lockstep/topology/system.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

System recorded(const std::string& name) {
  const std::string path = std::string(LOCKSTEP_GOLDEN) + "/topology/" + name;
  return system_from_xml(read_file(path), path);
}

std::vector<std::vector<std::string>> words(const DeviceMap& map) {
  std::vector<std::vector<std::string>> all;
  for (const std::vector<Path>& row : map.paths) {
    std::vector<std::string>& texts = all.emplace_back();
    for (const Path& path : row) texts.push_back(to_string(path));
  }
  return all;
}

std::vector<std::string> labels(const DeviceMap& map) {
  std::vector<std::string> all;
  for (const Device& device : map.devices) all.push_back(device.label);
  return all;
}

TEST(SystemTest, paths_follow_switches_host_bridges_and_nodes) {
  const DeviceMap map = recorded("two_gpus.xml").map;
  ASSERT_THAT(labels(map), ElementsAre("GPU0", "GPU1", "mlx5_0", "mlx5_1", "eth0", "eth1"));
  // mlx5_0 shares GPU0's switch, mlx5_1 is behind a second one, eth0 has a root port of its own below the
  // same host bridge, eth1 is below another host bridge of that node, GPU1 is on the other socket.
  EXPECT_THAT(words(map), ElementsAre(ElementsAre("X", "SYS", "PIX", "PXB", "PHB", "NODE"),
                                      ElementsAre("SYS", "X", "SYS", "SYS", "SYS", "SYS"),
                                      ElementsAre("PIX", "SYS", "X", "PXB", "PHB", "NODE"),
                                      ElementsAre("PXB", "SYS", "PXB", "X", "PHB", "NODE"),
                                      ElementsAre("PHB", "SYS", "PHB", "PHB", "X", "NODE"),
                                      ElementsAre("NODE", "SYS", "NODE", "NODE", "NODE", "X")));
}

TEST(SystemTest, devices_have_their_names_and_what_is_near_them) {
  const DeviceMap map = recorded("two_gpus.xml").map;
  const Device& gpu = map.devices[1];
  EXPECT_EQ(gpu.kind, DeviceKind::kGpu);
  EXPECT_EQ(gpu.name, "GA100 [A100 PCIe 80GB]");
  EXPECT_EQ(gpu.pci_bus_id, "0000:81:00.0");
  EXPECT_EQ(gpu.numa_node, 1);
  EXPECT_EQ(gpu.cpu_affinity, "8-15");
  EXPECT_EQ(gpu.memory_bytes, 0);
  const Device& nic = map.devices[2];
  EXPECT_EQ(nic.kind, DeviceKind::kNic);
  EXPECT_EQ(nic.name, "MT28908 Family [ConnectX-6], ib0");
  EXPECT_EQ(nic.numa_node, 0);
}

TEST(SystemTest, packages_caches_and_memory_of_two_sockets) {
  const System system = recorded("two_sockets.xml");
  ASSERT_EQ(system.packages.size(), 2u);
  for (const Package& package : system.packages) {
    EXPECT_EQ(package.cores, 8);
    EXPECT_EQ(package.hardware_threads, 16);
    std::vector<std::string> caches;
    for (const CacheGroup& cache : package.caches) {
      caches.push_back(cache.name + " " + std::to_string(cache.count) + " " +
                       std::to_string(cache.cores_each));
    }
    EXPECT_THAT(caches, ElementsAre("L3 2 4", "L2 8 1", "L1d 8 1"));
  }
  EXPECT_EQ(system.packages[1].cpus, "16-31");
  ASSERT_EQ(system.numa_nodes.size(), 2u);
  EXPECT_EQ(system.numa_nodes[1].index, 1);
  EXPECT_EQ(system.numa_nodes[1].cpus, "16-31");
  EXPECT_EQ(system.numa_nodes[1].memory_bytes, int64_t{256} << 30);
  EXPECT_TRUE(system.map.devices.empty());
}

TEST(SystemTest, without_packages_or_cores_the_machine_is_one_and_every_thread_is_one) {
  ::setenv("HWLOC_SYNTHETIC", "l3:2 pu:3", 1);
  const System system = read_host_system();
  ::unsetenv("HWLOC_SYNTHETIC");
  ASSERT_EQ(system.packages.size(), 1u);
  EXPECT_EQ(system.packages[0].cores, 6);
  EXPECT_EQ(system.packages[0].hardware_threads, 6);
  ASSERT_EQ(system.packages[0].caches.size(), 1u);
  EXPECT_EQ(system.packages[0].caches[0].cores_each, 3);
}

TEST(SystemTest, what_is_no_topology_is_named) {
  const std::string whole = read_file(std::string(LOCKSTEP_GOLDEN) + "/topology/two_gpus.xml");
  // hwloc crashes where an object lacks this attribute.
  std::string crashing = read_file(std::string(LOCKSTEP_GOLDEN) + "/topology/two_sockets.xml");
  const std::string attribute = "complete_cpuset";
  crashing.replace(crashing.find(attribute, crashing.find("os_index=\"5\"")), attribute.size(),
                   "comple4e_cpuset");
  for (const std::string& text :
       {std::string(""), std::string("<"), std::string("<html><body>502</body></html>"),
        std::string("<topology version=\"2.0\"></topology>"), whole.substr(0, whole.size() / 2), crashing}) {
    try {
      system_from_xml(text, "node7.xml");
      ADD_FAILURE() << "read: " << text.substr(0, 60);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("'node7.xml' is no topology"));
      EXPECT_THAT(error.advice(), HasSubstr("lstopo"));
    }
  }
}

TEST(SystemTest, this_machine_is_what_inspect_host_says) {
  const System system = read_host_system();
  const Machine machine = inspect_host();
  EXPECT_EQ(system.host, machine.host);
  EXPECT_EQ(static_cast<int>(system.packages.size()), std::max(1, machine.packages));
  EXPECT_EQ(static_cast<int>(system.numa_nodes.size()), machine.numa_nodes);
  int cores = 0, threads = 0;
  for (const Package& package : system.packages) {
    cores += package.cores;
    threads += package.hardware_threads;
  }
  EXPECT_EQ(cores, machine.host_cores);
  EXPECT_EQ(threads, machine.host_hardware_threads);
  ASSERT_EQ(system.map.paths.size(), system.map.devices.size());
  for (size_t i = 0; i < system.map.devices.size(); ++i) {
    EXPECT_EQ(system.map.paths[i][i].kind, PathKind::kSelf);
    EXPECT_FALSE(system.map.devices[i].pci_bus_id.empty());
  }
}

/// As a driver shows them that knows no paths.
DeviceMap driver_gpus(const std::vector<std::string>& bus_ids) {
  DeviceMap map;
  map.paths.assign(bus_ids.size(), std::vector<Path>(bus_ids.size()));
  for (size_t i = 0; i < bus_ids.size(); ++i) {
    map.devices.push_back(
        {.label = "GPU" + std::to_string(i), .name = "NVIDIA Test", .pci_bus_id = bus_ids[i]});
    map.paths[i][i].kind = PathKind::kSelf;
  }
  return map;
}

class MergedTest : public testing::Test {
 protected:
  std::string path(const System& system, size_t row, size_t column) {
    return to_string(system.map.paths.at(row).at(column));
  }

  System system_ = recorded("two_gpus.xml");
};

TEST_F(MergedTest, the_driver_says_what_the_gpus_are_and_the_bus_where) {
  // In another order than on the bus.
  DeviceMap gpus = driver_gpus({"0000:81:00.0", "0000:03:00.0"});
  gpus.driver_version = "580.1";
  gpus.devices[0].memory_bytes = 80;
  gpus.devices[1].cpu_affinity = "0-3";
  const System merged = with_gpus(system_, gpus);
  EXPECT_EQ(merged.map.driver_version, "580.1");
  EXPECT_EQ(merged.packages.size(), 2u);
  ASSERT_EQ(merged.map.devices.size(), 6u);
  EXPECT_EQ(merged.map.devices[0].label, "GPU0");
  EXPECT_EQ(merged.map.devices[0].name, "NVIDIA Test");
  EXPECT_EQ(merged.map.devices[0].memory_bytes, 80);
  EXPECT_EQ(merged.map.devices[0].numa_node, 1);
  EXPECT_EQ(merged.map.devices[0].cpu_affinity, "8-15");
  EXPECT_EQ(merged.map.devices[1].cpu_affinity, "0-3");
  EXPECT_EQ(merged.map.devices[2].label, "mlx5_0");
  EXPECT_EQ(path(merged, 0, 0), "X");
  EXPECT_EQ(path(merged, 0, 1), "SYS");
  EXPECT_EQ(path(merged, 1, 2), "PIX");
  EXPECT_EQ(path(merged, 2, 1), "PIX");
  EXPECT_EQ(path(merged, 0, 2), "SYS");
}

TEST_F(MergedTest, the_drivers_paths_go_before_those_of_the_bus) {
  DeviceMap gpus = driver_gpus({"0000:03:00.0", "0000:81:00.0"});
  gpus.paths[0][1] = {PathKind::kNvlink, 2};
  EXPECT_EQ(path(with_gpus(system_, gpus), 0, 1), "NV2");
  EXPECT_EQ(path(with_gpus(system_, gpus), 1, 0), "SYS");
}

TEST_F(MergedTest, a_gpu_that_the_bus_does_not_show_has_unknown_paths_and_a_hidden_one_goes) {
  const System merged = with_gpus(system_, driver_gpus({"0000:03:00.0", "0001:00:00.0"}));
  ASSERT_EQ(merged.map.gpus(), 2);
  EXPECT_EQ(path(merged, 0, 1), "N/A");
  EXPECT_EQ(path(merged, 1, 1), "X");
  EXPECT_EQ(path(merged, 1, 2), "N/A");
  EXPECT_EQ(path(merged, 0, 2), "PIX");
  EXPECT_EQ(with_gpus(system_, {}).map.gpus(), 0);
}

}  // namespace
}  // namespace lockstep::topology
