#include "links/sample_links.h"

#include <fmt/format.h>

namespace lockstep::links {

topology::System sample_system(const std::string& host) {
  topology::System system{.host = host};
  system.packages = {
      {.processor = "Processor A", .cores = 16, .hardware_threads = 32, .cpus = "0-15,32-47"},
      {.processor = "Processor A", .cores = 16, .hardware_threads = 32, .cpus = "16-31,48-63"}};
  system.numa_nodes = {{.index = 0, .memory_bytes = int64_t{1} << 37, .cpus = "0-15,32-47"},
                       {.index = 1, .memory_bytes = int64_t{1} << 37, .cpus = "16-31,48-63"}};
  for (int i = 0; i < 4; ++i) {
    system.map.devices.push_back({.label = fmt::format("GPU{}", i),
                                  .name = "GPU A",
                                  .cpu_affinity = system.packages[i < 2 ? 0 : 1].cpus});
  }
  system.map.devices.push_back(
      {.kind = topology::DeviceKind::kNic, .label = "eth0", .cpu_affinity = system.packages[0].cpus});
  using topology::PathKind;
  for (int one = 0; one < 5; ++one) {
    std::vector<topology::Path>& row = system.map.paths.emplace_back();
    for (int other = 0; other < 5; ++other) {
      const bool near = one / 2 == other / 2 && one < 4 && other < 4;
      row.push_back(one == other ? topology::Path{PathKind::kSelf, 0}
                    : near       ? topology::Path{PathKind::kNvlink, 4}
                                 : topology::Path{PathKind::kSystem, 0});
    }
  }
  return system;
}

Record sample_links(int hosts, int ranks_each) {
  Record record{.lockstep_version = "0.1.0", .command = "lockstep topo --measure", .backend = "gloo"};
  for (int host = 0; host < hosts; ++host) {
    const auto address = [&](int network) { return fmt::format("10.0.{}.{}", network, host + 1); };
    record.hosts.push_back({sample_system(fmt::format("node{}", host + 1)),
                            {{"lo", {"127.0.0.1/8"}, {}},
                             {"eth0", {address(0) + "/24"}, 10.0},
                             {"eth1", {address(1) + "/24"}, 1.0},
                             {"docker0", {"172.17.0.1/16"}, 100.0}}});
    for (int i = 0; i < ranks_each; ++i) record.ranks.push_back({host, address(0), "eth0"});
  }
  const int ranks = hosts * ranks_each;
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      if (from == to) continue;
      const bool within = from / ranks_each == to / ranks_each;
      Flow flow{.from = from, .to = to, .kind = within ? kLoopback : kNetwork};
      for (int round = 0; round < 5; ++round) {
        const double scatter = 1 + 0.01 * ((from * 7 + to * 3 + round * 2) % 5 - 2);
        flow.rounds_gbit_per_s.push_back((within ? 30 : 9.4) * scatter);
        flow.rounds_latency_s.push_back((within ? 8e-6 : 25e-6) / scatter);
      }
      if (to == (from + 1) % ranks) flow.at_once_gbit_per_s = within ? 20 : 9.0;
      record.flows.push_back(std::move(flow));
    }
  }
  summarize(record);
  return record;
}

void slow_down(Record& record, int from, int to, double factor) {
  for (Flow& flow : record.flows) {
    if (flow.from != from || flow.to != to) continue;
    for (double& rate : flow.rounds_gbit_per_s) rate *= factor;
  }
}

}  // namespace lockstep::links
