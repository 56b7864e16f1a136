// Files that are cut off, damaged or made to deceive: each is refused with its name and a reason.

#include <functional>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/network_file/network_file.h"

#include "network_file/entries.h"

namespace lockstep::network_file {
namespace {

using nlohmann::json;
using testing::HasSubstr;

using EntryMap = std::map<std::string, std::string>;

struct BadFile {
  std::string name;
  std::string reason;
  std::function<void(EntryMap&)> spoil;
};

void edit_json(std::string& entry, const std::function<void(json&)>& edit) {
  json content = json::parse(entry);
  edit(content);
  entry = content.dump();
}

BadFile description(const std::string& name, const std::string& reason, std::function<void(json&)> edit) {
  return {name, reason, [edit = std::move(edit)](EntryMap& all) { edit_json(all.at(kAbout), edit); }};
}

BadFile graph(const std::string& name, const std::string& reason, std::function<void(json&)> edit) {
  return {name, reason, [edit = std::move(edit)](EntryMap& all) {
            edit_json(all.at(kModel), [&](json& content) { edit(content.at("graph_module")); });
          }};
}

json& node(json& module, const std::string& target) {
  for (json& one : module.at("graph").at("nodes")) {
    if (one.at("target").get<std::string>().find(target) != std::string::npos) return one;
  }
  throw std::logic_error("no node " + target);
}

void erase_node(json& module, const std::string& target) {
  json& nodes = module.at("graph").at("nodes");
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].at("target").get<std::string>().find(target) == std::string::npos) continue;
    nodes.erase(i);
    return;
  }
}

std::vector<BadFile> bad_files() {
  const auto first = [](json& content) -> json& { return content.at("parameters").at(0); };
  return {
      {"checkpoint", "not one of lockstep", [](EntryMap& all) { all.erase(kAbout); }},
      {"no values", "lockstep.values", [](EntryMap& all) { all.erase("extra/lockstep.values"); }},
      {"no graph", "b2_fp32.json", [](EntryMap& all) { all.erase(kModel); }},
      {"no constants", "constants",
       [](EntryMap& all) { all.erase("data/constants/b2_fp32_constants_config.json"); }},
      {"short values", "outside", [](EntryMap& all) { all.at("extra/lockstep.values").resize(500); }},
      {"description no JSON", "not JSON", [](EntryMap& all) { all.at(kAbout) = "{"; }},
      {"description a list", "lacks an entry", [](EntryMap& all) { all.at(kAbout) = "[]"; }},
      {"deep description", "lacks an entry",
       [](EntryMap& all) { all.at(kAbout) = std::string(100000, '[') + std::string(100000, ']'); }},
      {"graph no JSON", "not JSON", [](EntryMap& all) { all.at(kModel) = "no"; }},
      {"graph of another kind", "not one of torch.export", [](EntryMap& all) { all.at(kModel) = "{}"; }},
      {"pickled constant", "pickled",
       [](EntryMap& all) {
         all.at("data/constants/b2_fp32_constants_config.json") =
             R"({"config": {"c": {"path_name": "c", "use_pickle": true}}})";
       }},
      {"constant outside", "outside of its 4 bytes",
       [](EntryMap& all) {
         all["data/constants/tensor_0"] = "1234";
         all.at("data/constants/b2_fp32_constants_config.json") =
             R"({"config": {"c": {"path_name": "tensor_0", "use_pickle": false, "tensor_meta": {"dtype": 7,
                        "sizes": [{"as_int": 2}], "strides": [{"as_int": 1}], "storage_offset": {"as_int": 0}}}}})";
       }},
      description("newer format", "format 9", [](json& all) { all["lockstep"] = 9; }),
      description("format a text", "lacks an entry", [](json& all) { all["lockstep"] = "1"; }),
      description("no parameters", "no parameters", [](json& all) { all["parameters"] = json::array(); }),
      description("no graphs", "no parameters", [](json& all) { all["graphs"] = json::array(); }),
      description("huge shape", "cannot have the shape",
                  [=](json& all) {
                    first(all)["shape"] = {1 << 30, 1 << 30, 8};
                  }),
      description("negative shape", "cannot have the shape",
                  [=](json& all) {
                    first(all)["shape"] = {-1, 3};
                  }),
      description("gaps", "has gaps",
                  [=](json& all) {
                    first(all)["strides"] = {54, 2, 18, 6};
                  }),
      description("zero strides", "has gaps",
                  [=](json& all) {
                    first(all)["strides"] = {0, 0, 0, 0};
                  }),
      description("position outside", "outside", [=](json& all) { first(all)["position"] = 1'000'000; }),
      description("huge position", "outside", [=](json& all) { first(all)["position"] = UINT64_MAX - 3; }),
      description("unknown type", "complex64", [=](json& all) { first(all)["dtype"] = "complex64"; }),
      description("half parameter", "not fp32", [=](json& all) { first(all)["dtype"] = "float16"; }),
      description("name twice", "two parameters",
                  [=](json& all) { all["parameters"].push_back(first(all)); }),
      description("name with a newline", "not text", [=](json& all) { first(all)["name"] = "a\nb"; }),
      description("another shape", "an input for",
                  [=](json& all) {
                    first(all)["shape"] = {3, 8, 3, 3};
                    first(all)["strides"] = {72, 1, 24, 8};
                  }),
      description("no range", "no number", [](json& all) { all["targets"][0]["random"]["high"] = 0; }),
      description("unknown distribution", "cauchy",
                  [](json& all) { all["inputs"][0]["random"]["kind"] = "cauchy"; }),
      description("no batch", "batch of 0", [](json& all) { all["graphs"][0]["batch"] = 0; }),
      description("another batch", "of shape [2, 3, 8, 8], not [3, 3, 8, 8]",
                  [](json& all) { all["graphs"][0]["batch"] = 3; }),
      description("graph outside", "a graph", [](json& all) { all["graphs"][0]["name"] = "../x"; }),
      description("unit with markup", "out of range", [](json& all) { all["unit"] = "<b>"; }),
      description("unknown device", "the device 'tpu'",
                  [](json& all) { all["graphs"][0]["device"] = "tpu"; }),
      graph("an input too few", "not one of torch.export",
            [](json& all) { all["graph"]["inputs"].erase(0); }),
      graph("a result too few", "results",
            [](json& all) {
              all["graph"]["outputs"].erase(3);
              all["signature"]["output_specs"].erase(3);
            }),
      graph("a mutated input", "inputs, not",
            [](json& all) {
              all["signature"]["input_specs"][0] = {{"buffer", json::object()}};
            }),
      graph("reads a file", "from_file",
            [](json& all) { node(all, "relu")["target"] = "torch.ops.aten.from_file.default"; }),
      graph("multiplies by a number", "a tensor times a number",
            [](json& all) {
              json& changed = node(all, "relu");
              changed["target"] = "torch.ops.aten.mul.Tensor";
              changed["inputs"].push_back({{"name", "other"}, {"arg", {{"as_float", 0.5}}}, {"kind", 1}});
            }),
      graph("calls Python", "not allowed", [](json& all) { node(all, "relu")["target"] = "os.system"; }),
      graph("another library", "not allowed",
            [](json& all) { node(all, "relu")["target"] = "torch.ops.mylib.relu.default"; }),
      graph("no gradient", "no gradient", [](json& all) { erase_node(all, "grad_ready"); }),
      graph("gradient of another", "too many",
            [](json& all) { node(all, "grad_ready")["inputs"][1]["arg"]["as_int"] = 99; }),
      graph("a gradient used again", "after it gave it away",
            [](json& all) {
              json& nodes = all["graph"]["nodes"];
              json used = node(all, "relu");
              used["inputs"][0]["arg"] = node(all, "grad_ready")["inputs"][0]["arg"];
              nodes.push_back(used);
            }),
      graph("a value that nobody makes", "not one of torch.export",
            [](json& all) { all["graph"]["outputs"][0]["as_tensor"]["name"] = "nothing"; }),
  };
}

class BadFileTest : public testing::TestWithParam<BadFile> {};

TEST_P(BadFileTest, is_refused_with_a_reason) {
  EntryMap entries = small_entries();
  GetParam().spoil(entries);
  EXPECT_THAT([&] { read_description(MemoryEntries(entries)); },
              testing::ThrowsMessage<Error>(HasSubstr(GetParam().reason)));
}

std::string name_of(const testing::TestParamInfo<BadFile>& info) {
  std::string name = info.param.name;
  for (char& c : name) c = c == ' ' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, BadFileTest, testing::ValuesIn(bad_files()), name_of);

}  // namespace
}  // namespace lockstep::network_file
