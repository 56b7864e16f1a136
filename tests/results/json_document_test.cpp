#include <regex>
#include <set>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"
#include "lockstep/results/files/record_json.h"

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
  record.runs[1].recorded =
      Recorded{.ranks = {0, 1}, .work = {{}}, .groups = {{}}, .collectives = {{}}, .gradients = {{}}};
  std::set<std::string> keys;
  collect_keys(nlohmann::json::parse(to_json(record)), keys);
  collect_keys(nlohmann::json::parse(read_file(LOCKSTEP_GOLDEN "/topology/nvswitch8.json")), keys);
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

TEST(JsonDocumentTest, the_reference_has_every_key_that_is_written_and_its_type) {
  const std::string reference = json_reference();
  const std::set<std::string> keys = written_keys();
  EXPECT_GT(keys.size(), 100u);
  // Keys of PyTorch's part of the file, and the versions of both formats.
  const std::set<std::string> others{"pytorch_version", "cuda_version",      "distributed_backend",
                                     "bucket_size",     "benchmark_results", "batch_size",
                                     "result",          "measurements",      "lockstep",
                                     "schema_version",  "topology_version"};
  for (const std::string& key : keys) {
    const bool found = std::regex_search(reference, std::regex("\\n  ([a-z0-9_]+, )*" + key + "[,:]"));
    EXPECT_NE(found, others.contains(key)) << key;
  }
  for (const char* line :
       {"lockstep.runs[]\n  model: string, required\n", "\n  global_batch: whole number or null\n",
        "\n  samples: list of lists of numbers, required\n",
        "\nlockstep.machine\nlockstep.machines[]\n  host: string\n",
        "\nlockstep.runs[].breakdown.phases\nlockstep.runs[].breakdown.ranks[].phases\n",
        "\nlockstep.runs[].loss\n  first, last: number or null\n"}) {
    EXPECT_NE(reference.find(line), std::string::npos) << line;
  }
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
  EXPECT_GT(described, 50);
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
