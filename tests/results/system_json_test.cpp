#include "lockstep/results/files/system_json.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/topology/system.h"

namespace lockstep::results {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

std::string recorded_text(const std::string& name) {
  return read_file(std::string(LOCKSTEP_GOLDEN) + "/topology/" + name);
}

TEST(SystemJsonTest, what_is_written_is_read_back) {
  for (const System& system :
       {topology::system_from_xml(recorded_text("two_gpus.xml"), "a"),
        topology::system_from_xml(recorded_text("two_sockets.xml"), "d"),
        system_from_json(recorded_text("nvswitch8.json"), "b"),
        system_from_json(recorded_text("v100x8.json"), "c"), topology::inspect_system()}) {
    const std::string text = system_to_json(system);
    const System again = system_from_json(text, "again");
    EXPECT_EQ(system_to_json(again), text);
    EXPECT_EQ(again.map.paths, system.map.paths);
    EXPECT_EQ(again.map.gpus(), system.map.gpus());
    EXPECT_EQ(again.packages.size(), system.packages.size());
  }
}

TEST(SystemJsonTest, the_recorded_files_are_as_it_writes_them) {
  for (const char* name : {"nvswitch8.json", "v100x8.json"}) {
    EXPECT_EQ(system_to_json(system_from_json(recorded_text(name), name)), recorded_text(name)) << name;
  }
}

TEST(SystemJsonTest, the_kind_of_a_file_is_seen_by_its_content) {
  EXPECT_EQ(system_from_text(recorded_text("two_sockets.xml"), "a").packages.size(), 2u);
  EXPECT_EQ(system_from_text(recorded_text("v100x8.json"), "b").map.gpus(), 8);
}

/// The error for the 8-V100 file after `change`.
template <typename Change>
std::string complaint(Change change) {
  nlohmann::json document = nlohmann::json::parse(recorded_text("v100x8.json"));
  change(document);
  try {
    system_from_json(document.dump(), "node7.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SystemJsonTest, a_file_that_was_changed_is_refused_with_the_key) {
  using nlohmann::json;
  EXPECT_EQ(complaint([](json&) {}), "");
  EXPECT_THAT(complaint([](json& file) { file["topology"]["paths"][0][1] = "NVX"; }),
              HasSubstr("'node7.json': topology.paths[0][1] is \"NVX\", expected X, SYS, NODE"));
  EXPECT_THAT(complaint([](json& file) { file["topology"]["paths"].erase(3); }),
              HasSubstr("topology.paths is a list of 11, expected a list of 12"));
  EXPECT_THAT(complaint([](json& file) { file["topology"]["paths"][2].push_back("SYS"); }),
              HasSubstr("topology.paths[2] is a list of 13"));
  EXPECT_THAT(complaint([](json& file) { file["topology"]["paths"][4][4] = "PIX"; }),
              HasSubstr("topology.paths[4][4] is \"PIX\", expected X"));
  EXPECT_THAT(complaint([](json& file) { file["topology"]["paths"][4][5] = "X"; }),
              HasSubstr("topology.paths[4][5] is \"X\", expected the path to another device"));
  EXPECT_THAT(complaint([](json& file) { file["topology"]["devices"][0]["kind"] = "tpu"; }),
              HasSubstr("topology.devices[0].kind is \"tpu\", expected \"gpu\" or \"nic\""));
  EXPECT_THAT(complaint([](json& file) { file["topology"]["devices"][1]["label"] = "GPU0"; }),
              HasSubstr("topology.devices[1].label is \"GPU0\", expected a name of its own"));
  EXPECT_THAT(complaint([](json& file) { file["topology"]["devices"][1]["numa_node"] = -1; }),
              HasSubstr("topology.devices[1].numa_node is -1"));
  EXPECT_THAT(complaint([](json& file) { file["packages"] = "two"; }), HasSubstr("packages is \"two\""));
  EXPECT_THAT(complaint([](json& file) {
                file["packages"] = {{{"cores", 0}}};
              }),
              HasSubstr("packages[0].cores is 0"));
  EXPECT_THAT(complaint([](json& file) { file["topology_version"] = 2; }),
              HasSubstr("topology_version is 2; this lockstep reads up to 1"));
  EXPECT_THAT(complaint([](json& file) { file.erase("topology_version"); }),
              HasSubstr("no recorded topology: it has no 'topology_version'"));
}

TEST(SystemJsonTest, text_that_is_no_record_at_all_is_refused) {
  const std::string whole = recorded_text("v100x8.json");
  for (const std::string& text : {std::string(""), std::string("  \n"), whole.substr(0, 700),
                                  std::string("GPU0 X NV1"), std::string("[1, 2]"), std::string("null")}) {
    try {
      system_from_json(text, "node7.json");
      ADD_FAILURE() << "read: " << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("'node7.json'"));
    }
  }
  const auto advice_for = [](const std::string& text) {
    try {
      system_from_json(text, "result.json");
    } catch (const Error& error) {
      return error.advice();
    }
    return std::string("(it was read)");
  };
  EXPECT_THAT(advice_for(read_file(LOCKSTEP_GOLDEN "/record.json")), HasSubstr("lockstep show"));
  EXPECT_THAT(advice_for("{}"), Not(AnyOf(HasSubstr("lockstep show"), HasSubstr("it was read"))));
}

}  // namespace
}  // namespace lockstep::results
