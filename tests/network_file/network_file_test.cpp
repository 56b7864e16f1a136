#include "lockstep/network_file/network_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"

#include "network_file/entries.h"

namespace lockstep::network_file {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(NetworkFileTest, what_python_wrote_is_read) {
  const NetworkFile file = read_description(MemoryEntries(small_entries()));
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

TEST(NetworkFileTest, a_batch_that_it_has_not_is_answered_with_those_that_it_has) {
  const NetworkFile file = read_description(MemoryEntries(small_entries()));
  EXPECT_EQ(file.graph(2, "fp32", "cpu").name, "b2_fp32");
  try {
    file.graph(8, "fp32", "cpu");
    FAIL() << "there is no such graph";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("8 in fp32 on the CPU; it has 2 in fp32 on the CPU"));
  }
  EXPECT_THROW(file.graph(2, "bf16", "cpu"), ConfigError);
}

TEST(NetworkFileTest, a_graph_may_be_for_gpus) {
  std::map<std::string, std::string> entries = small_entries();
  auto about = nlohmann::json::parse(entries.at(kAbout));
  about["graphs"][0]["device"] = "cuda";
  entries.at(kAbout) = about.dump();
  const NetworkFile file = read_description(MemoryEntries(entries));
  EXPECT_EQ(file.graph(2, "fp32", "cuda").name, "b2_fp32");
  EXPECT_THAT([&] { file.check_step(2, "fp32", "cpu"); },
              testing::ThrowsMessage<ConfigError>(HasSubstr("on the CPU; it has 2 in fp32 on a GPU")));
}

TEST(NetworkFileTest, attention_that_drops_draws_random_numbers) {
  for (const double dropped : {0.0, 0.1}) {
    std::map<std::string, std::string> entries = small_entries();
    auto model = nlohmann::json::parse(entries.at(kModel));
    for (auto& node : model["graph_module"]["graph"]["nodes"]) {
      if (node["target"] == "torch.ops.aten.relu.default")
        node["inputs"].push_back({{"name", "dropout_p"}, {"arg", {{"as_float", dropped}}}, {"kind", 1}});
    }
    entries.at(kModel) = model.dump();
    EXPECT_EQ(read_description(MemoryEntries(entries)).draws_random_numbers, dropped > 0);
  }
}

}  // namespace
}  // namespace lockstep::network_file
