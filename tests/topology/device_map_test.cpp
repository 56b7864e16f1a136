#include "lockstep/topology/device_map.h"

#include <gtest/gtest.h>

namespace lockstep::topology {
namespace {

TEST(PathTest, every_word_is_read_as_it_is_written) {
  for (const char* word : {"X", "SYS", "NODE", "PHB", "PXB", "PIX", "N/A", "NV1", "NV18"}) {
    const std::optional<Path> path = parse_path(word);
    ASSERT_TRUE(path) << word;
    EXPECT_EQ(to_string(*path), word);
  }
  EXPECT_EQ(parse_path("NV12"), (Path{PathKind::kNvlink, 12}));
  EXPECT_EQ(parse_path("PHB"), (Path{PathKind::kHostBridge, 0}));
}

TEST(PathTest, anything_else_is_none) {
  for (const char* word : {"", "x", "NV", "NV0", "NV-2", "NV2x", "NVL", "NV99999", "SOC", " PIX"}) {
    EXPECT_FALSE(parse_path(word)) << word;
  }
}

TEST(DeviceMapTest, a_place_on_the_bus_has_one_name) {
  EXPECT_EQ(normal_bus_id("00000000:0A:00.0"), "0000:0a:00.0");
  EXPECT_EQ(normal_bus_id("0000:0a:00.0"), "0000:0a:00.0");
  EXPECT_EQ(normal_bus_id("0A:00.0"), "0000:0a:00.0");
  EXPECT_EQ(normal_bus_id("00010000:01:00.0"), "10000:01:00.0");
  EXPECT_EQ(normal_bus_id(""), "");
}

TEST(DeviceMapTest, paths_are_counted_by_kind_most_first) {
  DeviceMap map;
  map.devices.resize(4);
  const Path self{PathKind::kSelf, 0}, system{PathKind::kSystem, 0}, two{PathKind::kNvlink, 2};
  map.paths = {{self, two, system, system},
               {two, self, system, system},
               {system, system, self, two},
               {system, system, two, self}};
  EXPECT_EQ(path_counts(map, 4), "SYS x 4, NV2 x 2");
  EXPECT_EQ(path_counts(map, 2), "NV2 x 1");
  EXPECT_EQ(path_counts(map, 1), "");
}

}  // namespace
}  // namespace lockstep::topology
