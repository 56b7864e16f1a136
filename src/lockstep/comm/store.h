#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace lockstep::comm {

/// A shared map of small values, through which ranks find each other before they can communicate.
/// Thread-safe. The caller keeps the keys of several runs apart.
class Store {
 public:
  virtual ~Store() = default;

  virtual void set(const std::string& key, const std::string& value) = 0;

  /// Blocks, asleep, until the key is set. Throws TimeoutError that names the key.
  virtual std::string get(const std::string& key, std::chrono::duration<double> timeout) = 0;

  /// Adds to a counter that starts at 0 and returns its new value, atomically over all ranks.
  virtual int64_t add(const std::string& key, int64_t amount) = 0;

  /// Has the job's user told of a process that is no rank and connected to one: "127.0.0.1:4242 said ...".
  virtual void report_stranger(const std::string& /*sentence*/) {}
};

/// A Store in memory, for ranks that are threads of one process. Counters are kept as decimal text.
class HashStore final : public Store {
 public:
  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, std::chrono::duration<double> timeout) override;
  int64_t add(const std::string& key, int64_t amount) override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

}  // namespace lockstep::comm
