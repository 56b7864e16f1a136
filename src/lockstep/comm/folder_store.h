#pragma once

#include <filesystem>

#include "lockstep/comm/store.h"

namespace lockstep::comm {

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
