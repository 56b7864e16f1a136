#pragma once

#include <chrono>
#include <filesystem>

#include "lockstep/base/tcp_socket.h"

namespace lockstep::launch {

/// A temporary folder that is removed with this object, or after a kill of this process by a small process of
/// its own, the guardian.
class GuardedFolder {
 public:
  /// Takes a folder that exists; an empty path stands for none. `grace`: time that the guardian leaves to
  /// other processes that use the folder. `emptied`: a folder that is removed, too, where it is empty then.
  GuardedFolder(std::filesystem::path folder, std::chrono::milliseconds grace,
                std::filesystem::path emptied = {});
  ~GuardedFolder();
  GuardedFolder(const GuardedFolder&) = delete;
  GuardedFolder& operator=(const GuardedFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  const std::filesystem::path path_;
  const std::filesystem::path emptied_;
  /// A pipe that the end of this process closes, which wakes the guardian.
  UniqueFd alive_;
};

}  // namespace lockstep::launch
