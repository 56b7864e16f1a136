#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/names.h"

namespace lockstep {

/// Entries by name, in the order in which the user sees them. Filled in one place, so nothing depends on the
/// order of static initialization.
template <typename Entry>
class Registry {
 public:
  /// `what` is the kind of entry in messages ("model"); `list_command` prints all of them.
  Registry(std::string what, std::string list_command, std::vector<std::pair<std::string, Entry>> entries)
      : what_(std::move(what)), list_command_(std::move(list_command)), entries_(std::move(entries)) {}

  /// Throws ConfigError with the nearest names if there is no such entry.
  const Entry& get(std::string_view name) const {
    for (const auto& [known, entry] : entries_) {
      if (known == name) return entry;
    }
    throw_unknown_name(what_, name, names(), list_command_);
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, entry] : entries_) all.push_back(name);
    return all;
  }

  const std::vector<std::pair<std::string, Entry>>& entries() const { return entries_; }

 private:
  std::string what_;
  std::string list_command_;
  std::vector<std::pair<std::string, Entry>> entries_;
};

}  // namespace lockstep
