#include "lockstep/topology/path.h"

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

}  // namespace
}  // namespace lockstep::topology
