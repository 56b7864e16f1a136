#include "lockstep/network_file/network_file.h"

#include <stdexcept>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lockstep/base/error.h"

#include "fuzz/reader.h"
#include "network_file/zip_writer.h"

namespace lockstep::fuzz {
namespace {

using network_file::Entries;

/// A file in memory that has a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view content) : file_(memfd_create("network", 0)) {
    if (write(file_, content.data(), content.size()) != static_cast<ssize_t>(content.size())) {
      throw std::logic_error("no memory for a file");
    }
  }
  ~MemoryFile() { close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return fmt::format("/proc/self/fd/{}", file_); }

 private:
  int file_;
};

/// An archive; or its description after "d", or its graph after "g", in an archive that is whole but for
/// that: checksums keep a fuzzer out of it.
std::string archive_of(std::string_view text) {
  static const Entries good = network_file::entries_of(LOCKSTEP_REFERENCES "/small.pt2");
  if (!text.starts_with('d') && !text.starts_with('g')) return std::string(text);
  Entries entries = good;
  entries.at(text.front() == 'd' ? "extra/lockstep.json" : "models/b2_fp32.json") = text.substr(1);
  return network_file::zip_of(entries);
}

}  // namespace

bool reads(std::string_view text) {
  const MemoryFile memory(archive_of(text));
  try {
    const network_file::NetworkFile file = network_file::read_network_file(memory.path());
    for (const network_file::Tensor& tensor : file.parameters) {
      std::string values(tensor.bytes, '\0');
      char* const place = values.data();
      network_file::read_values(file, {&tensor, 1}, {&place, 1});
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace lockstep::fuzz
