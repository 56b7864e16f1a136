#include "lockstep/base/allocator.h"

#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

/// Flags of the mapping that holds `address`, from /proc/self/smaps ("rd wr mr mw me ac hg").
std::string flags_of_mapping(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    uintptr_t begin = 0;
    uintptr_t end = 0;
    char dash = 0;
    if (words >> std::hex >> begin >> dash >> end && dash == '-') {
      const auto at = reinterpret_cast<uintptr_t>(address);
      inside = begin <= at && at < end;
    }
    if (inside && line.starts_with("VmFlags:")) return line;
  }
  return "";
}

int64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6));
  }
  return -1;
}

TEST(AllocatorTest, freed_pages_are_kept_and_huge_ones_asked_for) {
  const int64_t before_kib = resident_kib();
  const std::string text = keep_freed_pages();
  EXPECT_EQ(keep_freed_pages(), text);
  if (text == "the system's malloc") return;
  // Reserved memory is not used memory.
  EXPECT_LT(resident_kib() - before_kib, 16 << 10);

  constexpr size_t kBytes = size_t{96} << 20;
  auto block = std::make_unique<char[]>(kBytes);
  const bool asked = flags_of_mapping(block.get() + kBytes / 2).find(" hg") != std::string::npos;
  EXPECT_EQ(asked, text.find("huge pages") != std::string::npos) << text;
  std::memset(block.get(), 1, kBytes);
  const int64_t used_kib = resident_kib();
  block.reset();
  EXPECT_GT(resident_kib(), used_kib - (8 << 10));
}

}  // namespace
}  // namespace lockstep
