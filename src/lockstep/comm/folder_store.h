#pragma once

#include <filesystem>

#include "lockstep/comm/store.h"

namespace lockstep::comm {

/// A Store in a folder that all ranks see, one file per key; the folder may lie on NFS. The folder is made
/// when it is not there, and left behind with what is in it: give each run a new one. Counters are kept as
/// decimal text.
class FolderStore final : public Store {
 public:
  /// Throws ConfigError when the folder cannot be made.
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
