#pragma once

#include <map>
#include <string>

#include "lockstep/launch/reception.h"

namespace lockstep::launch {

/// The values of a job's store, in its server, and the ranks that wait for one. Not thread-safe.
class ServedStore {
 public:
  /// Serves a request to the store (set, get, add, drop); false for any other message. Throws Error for a
  /// malformed one.
  bool handle(Reception::Guest& guest, const Message& message);
  /// For a connection that has ended.
  void forget(const Reception::Guest& guest);

 private:
  struct Waiting {
    Reception::Guest* guest;
    int64_t id;
  };
  void change(const std::string& key, const std::string& value);

  /// Keys and values in hexadecimal digits, as they travel.
  std::map<std::string, std::string> values_;
  std::multimap<std::string, Waiting> waiting_;
};

}  // namespace lockstep::launch
