#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lockstep/recordings/kineto_trace.h"

namespace lockstep::recordings {

/// Builds one value of the metadata.
class ValueBuilder {
 public:
  void begin() {
    root_ = nullptr;
    open_.clear();
    size_ = 0;
  }
  const nlohmann::json& value() const { return root_; }
  /// False once the value is larger than any metadata.
  bool add(nlohmann::json value, bool container) {
    if (++size_ > kMost) return false;
    nlohmann::json* place = &root_;
    if (!open_.empty()) {
      nlohmann::json& parent = *open_.back();
      place = parent.is_array() ? &parent.emplace_back() : &parent[key_];
    }
    *place = std::move(value);
    if (container) open_.push_back(place);
    return true;
  }
  void key(const std::string& key) { key_ = key; }
  /// Whether the value is complete.
  bool close() {
    open_.pop_back();
    return open_.empty();
  }

 private:
  /// Metadata with more values are not PyTorch's.
  static constexpr size_t kMost = 1'000'000;

  nlohmann::json root_;
  std::vector<nlohmann::json*> open_;
  std::string key_;
  size_t size_ = 0;
};

/// Reads the traces' distributedInfo and deviceProperties. Throw Error that names the file and the key of a
/// value that cannot be.
void read_distributed(const nlohmann::json& value, KinetoTrace& trace);
void read_devices(const nlohmann::json& value, KinetoTrace& trace);

}  // namespace lockstep::recordings
