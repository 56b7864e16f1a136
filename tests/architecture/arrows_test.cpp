// An arrow in the wrong direction must not compile. The table below is the design's, written here a second
// time on purpose: who changes an arrow in a CMakeLists.txt changes it here and in docs/architecture.md as
// well.

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/file.h"

#include "architecture/compiler.h"

namespace lockstep::architecture {
namespace {

using Parts = std::set<std::string>;

const Parts kTorchFree = {
    "base",           "comm",           "measure",      "topology",    "results/record", "results/files",
    "results/tables", "launch",         "recordings",   "data",        "feed",           "cuda_kernels",
    "network_file",   "predict/curves", "predict/jobs", "collectives", "links"};

Parts with(Parts parts, const Parts& more) {
  parts.insert(more.begin(), more.end());
  return parts;
}

const Parts kBelowTheStep = {"base",       "comm",         "measure",     "launch", "data",
                             "feed",       "replica",      "kernels",     "models", "inputs",
                             "strategies", "cuda_kernels", "network_file"};
const Parts kBelowTheRows =
    with(kBelowTheStep, {"topology", "results/record", "results/files", "train/step"});

/// Every part, with all that it may know, directly or through another.
const std::map<std::string, Parts> kMayKnow = {
    {"base", {}},
    {"comm", {"base"}},
    {"cuda_kernels", {"base"}},
    {"measure", {"base"}},
    {"collectives", {"base", "comm", "measure"}},
    {"links",
     {"base", "comm", "measure", "collectives", "topology", "results/record", "results/files",
      "results/tables", "plots"}},
    {"predict/jobs", {"base", "comm", "measure", "collectives", "topology", "results/record"}},
    {"predict/curves",
     {"base", "comm", "measure", "collectives", "topology", "results/record", "predict/jobs"}},
    {"topology", {"base"}},
    {"results/record", {"base", "measure", "topology"}},
    {"results/files", {"base", "measure", "topology", "results/record"}},
    {"results/tables", {"base", "measure", "topology", "results/record"}},
    {"recordings", {"base", "measure", "topology", "results/record"}},
    {"launch", {"base", "comm"}},
    {"plots", {"base", "measure", "topology", "results/record", "results/tables"}},
    {"data", {"base"}},
    {"feed", {"base"}},
    {"replica", {"base"}},
    {"kernels", {"base", "cuda_kernels", "replica"}},
    {"network_file", {"base"}},
    {"models", {"base", "cuda_kernels", "replica", "kernels", "network_file"}},
    {"inputs", {"base", "data", "feed", "replica"}},
    {"strategies", {"base", "comm", "replica"}},
    {"train/step", kBelowTheStep},
    {"train/rows", kBelowTheRows},
    {"train/training", with(kBelowTheRows, {"train/rows"})},
    {"train/verify", with(kBelowTheRows, {"train/rows"})},
    {"train/job", with(kBelowTheRows, {"train/rows"})},
};

std::filesystem::path folder_of(const std::string& part) {
  return std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "src/lockstep" / part;
}

/// A header of the part, as an include names it.
std::string header_of(const std::string& part) {
  const auto folder = folder_of(part);
  std::set<std::string> headers;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".h") headers.insert(entry.path().filename().string());
  }
  return headers.empty() ? "" : "lockstep/" + part + "/" + *headers.begin();
}

Compilation include_in_part(const std::string& part, const std::string& header) {
  return compile_in_part(part, "#include \"" + header + "\"\n");
}

/// An error for every header that cannot be found; unlike including one, this does not take seconds where
/// LibTorch is behind it.
std::string must_find(const std::string& header) {
  return fmt::format("#if !__has_include(\"{0}\")\n#error no {0}\n#endif\n", header);
}

std::string must_not_find(const std::string& header) {
  return fmt::format("#if __has_include(\"{0}\")\n#error can include {0}\n#endif\n", header);
}

TEST(ArrowsTest, every_folder_has_its_place_in_the_table) {
  const std::filesystem::path root = LOCKSTEP_SOURCE_DIR "/src/lockstep";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const auto lists = entry.path() / "CMakeLists.txt";
    if (!std::filesystem::exists(lists) || read_file(lists).find("lockstep_part(") == std::string::npos)
      continue;
    const std::string part = std::filesystem::relative(entry.path(), root).string();
    EXPECT_TRUE(kMayKnow.contains(part)) << part << " is new: add what it may know";
  }
  for (const auto& part : kTorchFree) EXPECT_TRUE(part_is_built(part)) << part;
}

TEST(ArrowsTest, a_header_of_a_part_that_it_may_not_know_is_not_found) {
  int tried = 0;
  for (const auto& [part, known] : kMayKnow) {
    if (!part_is_built(part)) continue;
    std::string code;
    for (const auto& [other, unused] : kMayKnow) {
      if (other == part || known.contains(other)) continue;
      code += must_not_find(header_of(other));
      ++tried;
    }
    const Compilation compilation = compile_in_part(part, code);
    EXPECT_TRUE(compilation.ok) << part << ":\n" << compilation.messages;
  }
  EXPECT_GE(tried, 40);
}

TEST(ArrowsTest, the_control_compiles) {
  EXPECT_TRUE(include_in_part("comm", "lockstep/base/error.h").ok);
  EXPECT_TRUE(include_in_part("launch", "lockstep/comm/types.h").ok);
  EXPECT_FALSE(include_in_part("base", "lockstep/comm/types.h").ok);
  EXPECT_TRUE(compile_in_part("comm", must_find("lockstep/base/error.h")).ok);
  EXPECT_FALSE(compile_in_part("comm", must_not_find("lockstep/base/error.h")).ok);
  EXPECT_FALSE(compile_in_part("comm", must_find("lockstep/base/no_such_header.h")).ok);
}

TEST(ArrowsTest, every_part_finds_its_own_headers_and_base) {
  for (const auto& [part, known] : kMayKnow) {
    if (!part_is_built(part)) continue;
    const Compilation compilation =
        compile_in_part(part, must_find(header_of(part)) + must_find(header_of("base")));
    EXPECT_TRUE(compilation.ok) << part << ":\n" << compilation.messages;
  }
}

TEST(ArrowsTest, torch_is_out_of_reach_of_the_parts_that_build_without_it) {
  for (const auto& part : kTorchFree) {
    const Compilation compilation = compile_in_part(part, "#include <ATen/ATen.h>\n");
    EXPECT_FALSE(compilation.ok) << part;
    EXPECT_THAT(compilation.messages, testing::HasSubstr("No such file")) << part;
  }
  if (part_is_built("replica")) {
    EXPECT_TRUE(compile_in_part("replica", must_find("ATen/ATen.h")).ok);
  }
}

}  // namespace
}  // namespace lockstep::architecture
