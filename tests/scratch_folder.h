#pragma once

#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>

#include "lockstep/base/file.h"

namespace lockstep::test {

/// A folder of its own, empty at first, that exists as long as the object.
class ScratchFolder {
 public:
  ScratchFolder() : path_(make_private_folder("lockstep-test")) {}
  ~ScratchFolder() {
    // A process that is being killed may still write into it.
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string path(const std::string& name) const { return (path_ / name).string(); }
  size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

/// Relative paths start from `folder` as long as this lives.
class WorkingFolder {
 public:
  explicit WorkingFolder(const std::filesystem::path& folder) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
  }
  ~WorkingFolder() { std::filesystem::current_path(before_); }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;

 private:
  std::filesystem::path before_;
};

}  // namespace lockstep::test
