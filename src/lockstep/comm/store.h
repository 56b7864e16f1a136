#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep::comm {

/// How ranks find each other before they can communicate: a shared map of small values. Thread-safe. Keys
/// that several runs might share are the caller's to make unique.
class Store {
 public:
  virtual ~Store() = default;

  virtual void set(const std::string& key, const std::string& value) = 0;

  /// Blocks, asleep, until the key is there. Throws TimeoutError that names the key.
  virtual std::string get(const std::string& key, std::chrono::duration<double> timeout) = 0;

  /// Adds to a counter that starts at 0 and returns its new value, atomically over all ranks.
  virtual int64_t add(const std::string& key, int64_t amount) = 0;
};

}  // namespace lockstep::comm
