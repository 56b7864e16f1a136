#pragma once

#include <map>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/network_file/network_file.h"

namespace lockstep::network_file {

/// The entries of a network's file in memory, without an archive around them.
class MemoryEntries final : public Entries {
 public:
  explicit MemoryEntries(std::map<std::string, std::string> content) : content_(std::move(content)) {}

  bool has(const std::string& name) const override { return content_.contains(name); }
  uint64_t size_of(const std::string& name) const override { return content_of(name).size(); }
  std::string read(const std::string& name, uint64_t /*most*/) const override { return content_of(name); }

 private:
  const std::string& content_of(const std::string& name) const {
    const auto found = content_.find(name);
    if (found == content_.end()) throw Error("it has no entry '" + name + "'");
    return found->second;
  }

  std::map<std::string, std::string> content_;
};

inline constexpr const char* kAbout = "extra/lockstep.json";
inline constexpr const char* kModel = "models/b2_fp32.json";

/// The entries of tests/references/small.pt2, whose texts are the fuzzer's seeds. All values are 0.
inline std::map<std::string, std::string> small_entries() {
  const std::string seeds = std::string(LOCKSTEP_FUZZ_CORPUS) + "/network_file/";
  const std::string nothing = R"({"config": {}})";
  return {{kAbout, read_file(seeds + "good_description").substr(1)},
          {kModel, read_file(seeds + "good_graph").substr(1)},
          {kValues, std::string(2048, '\0')},
          {"data/constants/b2_fp32_constants_config.json", nothing},
          {"data/weights/b2_fp32_weights_config.json", nothing}};
}

}  // namespace lockstep::network_file
