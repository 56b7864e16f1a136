#pragma once

#include <map>
#include <string>

namespace lockstep::network_file {

/// Contents by name, without the folder that the archive has around them.
using Entries = std::map<std::string, std::string>;

/// The entries of a network's file that lockstep reads.
Entries entries_of(const std::string& path);

/// How an archive is to differ from those that PyTorch writes.
struct Oddity {
  int method = 0;
  int flags = 0;
  std::string folder = "archive";
};

/// A ZIP archive of these, stored.
std::string zip_of(const Entries& entries, const Oddity& oddity = {});

/// A file that exists as long as the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace lockstep::network_file
