#include "lockstep/network_file/network_file.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"

#include "network_file/zip_writer.h"

namespace lockstep::network_file {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kSmall = LOCKSTEP_REFERENCES "/small.pt2";

TEST(NetworkFileTest, what_python_wrote_is_read) {
  const NetworkFile file = read_network_file(kSmall);
  EXPECT_EQ(file.name, "small");
  EXPECT_EQ(file.unit, "image");
  EXPECT_EQ(file.hash.size(), 64u);
  EXPECT_TRUE(file.channels_last);
  EXPECT_FALSE(file.draws_random_numbers);
  EXPECT_EQ(file.parameter_count(), 216 + 8 + 8 + 72 + 8 + 80 + 10);
  EXPECT_EQ(file.multiply_adds, 8 * 27 * 64 + 8 * 9 * 36 + 80);
  ASSERT_EQ(file.parameters.size(), 7u);
  EXPECT_EQ(file.parameters[0].name, "first.weight");
  EXPECT_THAT(file.parameters[0].shape, ElementsAre(8, 3, 3, 3));
  EXPECT_THAT(file.parameters[0].strides, ElementsAre(27, 1, 9, 3));
  ASSERT_EQ(file.inputs.size(), 1u);
  EXPECT_THAT(file.inputs[0].shape, ElementsAre(3, 8, 8));
  ASSERT_EQ(file.targets.size(), 1u);
  EXPECT_EQ(file.targets[0].type, Type::kInt64);
  EXPECT_EQ(file.targets[0].high, 10);
  int changing = 0;
  for (const Tensor& buffer : file.buffers) changing += buffer.changes ? 1 : 0;
  EXPECT_EQ(changing, 3);
}

TEST(NetworkFileTest, values_are_read_to_their_places) {
  const NetworkFile file = read_network_file(kSmall);
  std::vector<std::vector<char>> contents;
  std::vector<char*> places;
  for (const Tensor& tensor : file.buffers) {
    contents.emplace_back(tensor.bytes);
    places.push_back(contents.back().data());
  }
  read_values(file, file.buffers, places);
  for (size_t i = 0; i < file.buffers.size(); ++i) {
    if (file.buffers[i].name != "shift") continue;
    const auto* shift = reinterpret_cast<const float*>(contents[i].data());
    EXPECT_EQ(shift[0], -1.0F);
    EXPECT_EQ(shift[7], 1.0F);
  }
}

TEST(NetworkFileTest, a_batch_that_it_has_not_is_answered_with_those_that_it_has) {
  const NetworkFile file = read_network_file(kSmall);
  EXPECT_EQ(file.graph(2, "fp32", "cpu").name, "b2_fp32");
  try {
    file.graph(8, "fp32", "cpu");
    FAIL() << "there is no such graph";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("small.pt2"));
    EXPECT_THAT(error.what(), HasSubstr("8 in fp32 on the CPU; it has 2 in fp32 on the CPU"));
  }
  EXPECT_THROW(file.graph(2, "bf16", "cpu"), ConfigError);
}

/// The one graph as it would be for GPUs: PyTorch traces such a graph only where there is one.
TEST(NetworkFileTest, a_graph_may_be_for_gpus) {
  Entries entries = entries_of(kSmall);
  const auto edit = [&](const char* entry, const auto& change) {
    auto content = nlohmann::json::parse(entries.at(entry));
    change(content);
    entries.at(entry) = content.dump();
  };
  edit("extra/lockstep.json", [](auto& about) { about["graphs"][0]["device"] = "cuda"; });
  edit("models/b2_fp32.json", [](auto& program) {
    auto& graph = program["graph_module"]["graph"];
    for (auto& value : graph["tensor_values"]) value["device"] = {{"type", "cuda"}, {"index", 0}};
    for (auto& node : graph["nodes"]) {
      for (auto& given : node["inputs"]) {
        if (given["arg"].contains("as_device")) given["arg"]["as_device"]["type"] = "cuda";
      }
    }
  });
  const TemporaryFile moved(zip_of(entries));
  const NetworkFile file = read_network_file(moved.path());
  EXPECT_EQ(file.graph(2, "fp32", "cuda").name, "b2_fp32");
  EXPECT_THAT([&] { file.check_step(2, "fp32", "cpu"); },
              testing::ThrowsMessage<ConfigError>(HasSubstr("on the CPU; it has 2 in fp32 on a GPU")));
}

TEST(NetworkFileTest, a_rewritten_archive_is_read_as_before) {
  const TemporaryFile copy(zip_of(entries_of(kSmall)));
  EXPECT_EQ(read_network_file(copy.path()).hash, read_network_file(kSmall).hash);
}

TEST(NetworkFileTest, names_of_files_end_in_pt2) {
  EXPECT_TRUE(is_network_file("mine.pt2"));
  EXPECT_TRUE(is_network_file("folder/mine.v2.pt2"));
  EXPECT_FALSE(is_network_file("resnet50"));
  EXPECT_FALSE(is_network_file("mine.pt"));
}

}  // namespace
}  // namespace lockstep::network_file
