#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"
#include "lockstep/results/files/json_reader.h"
#include "lockstep/results/files/json_writer.h"
#include "lockstep/results/files/system_json.h"

#include "results/sample_runs.h"

namespace lockstep::results {
namespace {

std::string document() {
  return read_file(LOCKSTEP_DOCS "/json.md");
}

void collect_keys(const nlohmann::json& value, std::set<std::string>& keys) {
  for (const auto& item : value.items()) {
    if (value.is_object()) keys.insert(item.key());
    if (value.is_structured()) collect_keys(item.value(), keys);
  }
}

TEST(JsonDocumentTest, every_key_that_is_written_is_described) {
  RunRecord record = small_record();
  record.machines.push_back(record.machines.front());
  std::set<std::string> keys;
  collect_keys(nlohmann::json::parse(to_json(record)), keys);
  EXPECT_GT(keys.size(), 80u);
  const std::string text = document();
  const std::string tables = text.substr(0, text.find("## Example"));
  for (const std::string& key : keys) {
    const bool described = tables.find("`" + key + "`") != std::string::npos ||
                           tables.find("." + key + "`") != std::string::npos;
    EXPECT_TRUE(described) << key;
  }
}

TEST(JsonDocumentTest, every_key_of_a_recorded_machine_is_described) {
  const System system = read_system(LOCKSTEP_GOLDEN "/topology/nvswitch8.json");
  std::set<std::string> keys;
  collect_keys(nlohmann::json::parse(system_to_json(system)), keys);
  EXPECT_GT(keys.size(), 15u);
  const std::string text = document();
  for (const std::string& key : keys) {
    const bool described =
        text.find("`" + key + "`") != std::string::npos || text.find("." + key + "`") != std::string::npos;
    EXPECT_TRUE(described) << key;
  }
}

TEST(JsonDocumentTest, its_example_can_be_read) {
  const std::string text = document();
  const size_t begin = text.find("```json\n") + 8;
  const RunRecord record = from_json(text.substr(begin, text.rfind("```") - begin), "the example");
  ASSERT_EQ(record.runs.size(), 1u);
  EXPECT_EQ(record.runs[0].samples.size(), 2u);
  EXPECT_NEAR(record.runs[0].images_per_s / record.runs[0].baseline->images_per_s, *record.runs[0].speedup,
              1e-6);
}

}  // namespace
}  // namespace lockstep::results
