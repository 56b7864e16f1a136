#pragma once

#include <filesystem>
#include <string>

#include "lockstep/comm/store.h"

namespace lockstep::comm {

/// A Store in an existing folder that all processes of a test see, one file per key: a test program needs no
/// server. Counters are kept as decimal text. Keys are file names.
class FolderStore final : public Store {
 public:
  explicit FolderStore(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_);
  }

  void set(const std::string& key, const std::string& value) override;
  /// Looks again every 1 to 20 ms.
  std::string get(const std::string& key, std::chrono::duration<double> timeout) override;
  int64_t add(const std::string& key, int64_t amount) override;

 private:
  std::filesystem::path path_of(const std::string& key) const;

  const std::filesystem::path folder_;
};

}  // namespace lockstep::comm
