#include <regex>
#include <set>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"
#include "lockstep/results/files/record_json.h"
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

/// Keys of a result file that has everything, and of a recorded machine.
std::set<std::string> written_keys() {
  RunRecord record = small_record();
  record.machines.push_back(record.machines.front());
  std::set<std::string> keys;
  collect_keys(nlohmann::json::parse(to_json(record)), keys);
  const System system = read_system(LOCKSTEP_GOLDEN "/topology/nvswitch8.json");
  collect_keys(nlohmann::json::parse(system_to_json(system)), keys);
  return keys;
}

/// "kind" for `devices[].kind`: names in backticks, the last part of each.
std::set<std::string> names_in(const std::string& text) {
  static const std::regex kName("`([^`]*)`");
  std::set<std::string> names;
  for (std::sregex_iterator found(text.begin(), text.end(), kName), end; found != end; ++found) {
    const std::string name = (*found)[1];
    names.insert(name.substr(name.rfind('.') + 1));
  }
  return names;
}

TEST(JsonDocumentTest, every_key_that_is_written_is_described) {
  const std::set<std::string> keys = written_keys();
  EXPECT_GT(keys.size(), 100u);
  const std::string text = document();
  const std::set<std::string> described = names_in(text.substr(0, text.find("## Example")));
  for (const std::string& key : keys) EXPECT_TRUE(described.contains(key)) << key;
}

TEST(JsonDocumentTest, every_key_that_is_described_is_written) {
  const std::set<std::string> keys = written_keys();
  std::istringstream lines(document());
  int described = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `")) continue;
    for (const std::string& name : names_in(line.substr(0, line.find('|', 1)))) {
      EXPECT_TRUE(keys.contains(name)) << name << " in: " << line;
      ++described;
    }
  }
  EXPECT_GT(described, 100);
}

TEST(JsonDocumentTest, every_setting_of_a_row_is_described_in_its_order) {
  const std::string text = document();
  size_t at = text.find("### `runs[]`");
  for (const Setting& setting : kSettings) {
    const size_t found = text.find(std::string("`") + setting.key + "`", at);
    EXPECT_NE(found, std::string::npos) << setting.key << " is not described, or not where the file has it";
    if (found != std::string::npos) at = found;
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
