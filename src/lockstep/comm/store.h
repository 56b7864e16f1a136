#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
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

/// A Store in a folder that all ranks see, one file per key; NFS works too. Creates a missing folder, and
/// leaves it and its files behind: use a new one for each run. Counters are kept as decimal text.
class FolderStore final : public Store {
 public:
  /// Throws ConfigError when the folder cannot be created.
  explicit FolderStore(std::filesystem::path folder);

  /// Throws Error with the system's reason.
  void set(const std::string& key, const std::string& value) override;
  /// Looks again every 1 to 20 ms.
  std::string get(const std::string& key, std::chrono::duration<double> timeout) override;
  int64_t add(const std::string& key, int64_t amount) override;

 private:
  std::filesystem::path path_of(const std::string& key) const;

  std::filesystem::path folder_;
};

}  // namespace lockstep::comm
