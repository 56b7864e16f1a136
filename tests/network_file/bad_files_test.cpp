// Files that are cut off, damaged or made to deceive: each is refused with its name and a reason.

#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/network_file/network_file.h"

#include "network_file/zip_writer.h"

namespace lockstep::network_file {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string kGood = LOCKSTEP_REFERENCES "/small.pt2";
constexpr const char* kAbout = "extra/lockstep.json";
constexpr const char* kModel = "models/b2_fp32.json";

struct BadFile {
  std::string name;
  std::string reason;
  std::function<std::string()> make;
};

/// A file whose JSON entry was changed.
std::string edited(const std::string& entry, const std::function<void(json&)>& edit) {
  Entries entries = entries_of(kGood);
  json content = json::parse(entries.at(entry));
  edit(content);
  entries.at(entry) = content.dump();
  return zip_of(entries);
}

BadFile description(const std::string& name, const std::string& reason, std::function<void(json&)> edit) {
  return {name, reason, [edit = std::move(edit)] { return edited(kAbout, edit); }};
}

BadFile graph(const std::string& name, const std::string& reason, std::function<void(json&)> edit) {
  return {name, reason, [edit = std::move(edit)] {
            return edited(kModel, [&](json& content) { edit(content.at("graph_module")); });
          }};
}

BadFile archive(const std::string& name, const std::string& reason,
                std::function<std::string(std::string)> edit) {
  return {name, reason, [edit = std::move(edit)] { return edit(zip_of(entries_of(kGood))); }};
}

BadFile entries(const std::string& name, const std::string& reason, std::function<void(Entries&)> edit) {
  return {name, reason, [edit = std::move(edit)] {
            Entries all = entries_of(kGood);
            edit(all);
            return zip_of(all);
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

std::string with_byte(std::string text, size_t at, char byte) {
  text.at(at) = byte;
  return text;
}

std::vector<BadFile> bad_files() {
  const auto first = [](json& content) -> json& { return content.at("parameters").at(0); };
  return {
      {"empty", "not a ZIP", [] { return std::string(); }},
      {"text", "not a ZIP", [] { return std::string("resnet50"); }},
      {"checkpoint", "not one of lockstep",
       [] {
         return zip_of({{"data.pkl", "x"}});
       }},
      archive("half", "not a ZIP", [](const std::string& all) { return all.substr(0, all.size() / 2); }),
      archive("no end", "not a ZIP", [](const std::string& all) { return all.substr(0, all.size() - 4); }),
      archive("no beginning", "damaged", [](const std::string& all) { return all.substr(1000); }),
      archive("damaged content", "checksum",
              [](const std::string& all) { return with_byte(all, 300, '\x7f'); }),
      archive("damaged directory", "damaged",
              [](const std::string& all) { return with_byte(all, all.find("PK\x01\x02"), 'X'); }),
      archive("many entries", "damaged",
              [](const std::string& all) { return with_byte(all, all.size() - 12, '\x7f'); }),
      archive("too many entries", "entries",
              [](const std::string& all) { return with_byte(all, all.size() - 11, '\x7f'); }),
      {"compressed", "compressed", [] { return zip_of(entries_of(kGood), {.method = 8}); }},
      {"encrypted", "compressed", [] { return zip_of(entries_of(kGood), {.flags = 1}); }},
      {"no folder", "folder", [] { return zip_of(entries_of(kGood), {.folder = ""}); }},
      entries("no values", "lockstep.values", [](Entries& all) { all.erase("extra/lockstep.values"); }),
      entries("no graph", "b2_fp32.json", [](Entries& all) { all.erase(kModel); }),
      entries("no constants", "constants",
              [](Entries& all) { all.erase("data/constants/b2_fp32_constants_config.json"); }),
      entries("short values", "outside", [](Entries& all) { all.at("extra/lockstep.values").resize(500); }),
      entries("description no JSON", "not JSON", [](Entries& all) { all.at(kAbout) = "{"; }),
      entries("description a list", "lacks an entry", [](Entries& all) { all.at(kAbout) = "[]"; }),
      entries("deep description", "lacks an entry",
              [](Entries& all) { all.at(kAbout) = std::string(100000, '[') + std::string(100000, ']'); }),
      entries("graph no JSON", "not JSON", [](Entries& all) { all.at(kModel) = "no"; }),
      entries("graph of another kind", "not one of torch.export",
              [](Entries& all) { all.at(kModel) = "{}"; }),
      entries("pickled constant", "pickled",
              [](Entries& all) {
                all.at("data/constants/b2_fp32_constants_config.json") =
                    R"({"config": {"c": {"path_name": "c", "use_pickle": true}}})";
              }),
      entries(
          "constant outside", "outside of its 4 bytes",
          [](Entries& all) {
            all["data/constants/tensor_0"] = "1234";
            all.at("data/constants/b2_fp32_constants_config.json") =
                R"({"config": {"c": {"path_name": "tensor_0", "use_pickle": false, "tensor_meta": {"dtype": 7,
                        "sizes": [{"as_int": 2}], "strides": [{"as_int": 1}], "storage_offset": {"as_int": 0}}}}})";
          }),
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
      description("another shape", "another shape",
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
      description("device of another graph", "another device than cuda",
                  [](json& all) { all["graphs"][0]["device"] = "cuda"; }),
      graph("another device", "another device than cpu",
            [](json& all) {
              for (json& value : all["graph"]["tensor_values"]) value["device"]["type"] = "cuda";
            }),
      graph("an operation on a device by its number", "one of its devices",
            [](json& all) {
              all["graph"]["nodes"][0]["inputs"].push_back(
                  {{"name", "device"}, {"arg", {{"as_device", {{"type", "cpu"}, {"index", 0}}}}}});
            }),
      graph("an input too few", "signature", [](json& all) { all["graph"]["inputs"].erase(0); }),
      graph("a result too few", "results",
            [](json& all) {
              all["graph"]["outputs"].erase(3);
              all["signature"]["output_specs"].erase(3);
            }),
      graph("a mutated input", "another kind",
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
      graph("no end of forward", "before the end", [](json& all) { erase_node(all, "forward_done"); }),
  };
}

class BadFileTest : public testing::TestWithParam<BadFile> {};

TEST_P(BadFileTest, is_refused_with_its_name_and_a_reason) {
  const TemporaryFile file(GetParam().make());
  try {
    read_network_file(file.path());
    FAIL() << "it was read";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr(file.path()));
    EXPECT_THAT(error.what(), HasSubstr(GetParam().reason));
  }
}

std::string name_of(const testing::TestParamInfo<BadFile>& info) {
  std::string name = info.param.name;
  for (char& c : name) c = c == ' ' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, BadFileTest, testing::ValuesIn(bad_files()), name_of);

TEST(MissingFileTest, is_refused_with_its_name) {
  EXPECT_THROW(read_network_file("/nowhere/mine.pt2"), ConfigError);
  EXPECT_THROW(read_network_file(testing::TempDir()), ConfigError);
}

/// Every prefix and every damaged byte of a small file: an answer or a refusal, and nothing else.
TEST(DamagedFileTest, never_ends_otherwise_than_with_an_answer) {
  const std::string good = zip_of(entries_of(kGood));
  for (size_t at = 0; at < good.size(); at += 397) {
    for (const std::string& bad :
         {good.substr(0, at), with_byte(good, at, static_cast<char>(good[at] ^ 0x41))}) {
      const TemporaryFile file(bad);
      try {
        read_network_file(file.path());
      } catch (const ConfigError&) {
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::network_file
