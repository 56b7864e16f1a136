#include "lockstep/models/network_archive.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <vector>

#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <zlib.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/plain_text.h"

namespace lockstep::models {
namespace {

using network_file::NetworkFile;

constexpr uint64_t kAnySize = std::numeric_limits<uint64_t>::max();

/// The result of `call` to LibTorch's reader, whose errors name lines of its own sources.
template <typename Call>
auto read_by_torch(const std::string& what, const Call& call) {
  try {
    return call();
  } catch (const std::exception&) {
    throw Error(what);
  }
}

/// An archive of PyTorch's. LibTorch reads it, but compares no checksums; read() does.
class Archive final : public network_file::Entries {
 public:
  explicit Archive(const std::string& path) {
    require_regular_file(path);
    bytes_.open(path, std::ios::binary);
    if (!bytes_) throw Error(std::strerror(errno));
    size_ = std::filesystem::file_size(path);
    read_by_torch("it is not a ZIP archive of PyTorch's, or is cut off or damaged",
                  [&] { names_ = reader_.emplace(path).getAllRecords(); });
  }

  bool has(const std::string& name) const override { return std::ranges::find(names_, name) != names_.end(); }

  uint64_t size_of(const std::string& name) const override {
    return read_by_torch(fmt::format("it has no entry '{}'", name),
                         [&] { return reader_->getRecordSize(name); });
  }

  std::string read(const std::string& name, uint64_t most) const override {
    const uint64_t size = size_of(name);
    // Checked before memory is allocated: the size is the file's claim.
    if (size > std::min(most, size_)) throw Error(fmt::format("its entry '{}' has {} bytes", name, size));
    std::string content(size, '\0');
    // Behind an entry's content stands its data descriptor: a signature, the checksum and the sizes (PKWARE's
    // APPNOTE 6.3.10, section 4.3.9). PyTorch writes it for all but empty entries.
    char descriptor[8] = {};
    read_by_torch(fmt::format("its entry '{}' is damaged", name), [&] {
      reader_->getRecord(name, content.data(), size);
      bytes_.seekg(static_cast<std::streamoff>(reader_->getRecordOffset(name) + size));
    });
    bytes_.read(descriptor, sizeof descriptor);
    uint32_t checksum = 0;
    std::memcpy(&checksum, descriptor + 4, sizeof checksum);
    const bool described = bytes_.good() && std::string_view(descriptor, 4) == "PK\x07\x08";
    bytes_.clear();
    const auto* data = reinterpret_cast<const Bytef*>(content.data());
    if (size > 0 && (!described || checksum != crc32_z(0, data, size)))
      throw Error(fmt::format("its entry '{}' is damaged: its checksum is another", name));
    return content;
  }

  /// Compares the checksums of all entries but the values.
  void check() const {
    for (const std::string& name : names_)
      if (name != network_file::kValues) read(name, kAnySize);
  }

 private:
  // Reading moves positions, and changes nothing that a caller sees.
  mutable std::ifstream bytes_;
  mutable std::optional<caffe2::serialize::PyTorchStreamReader> reader_;
  std::vector<std::string> names_;
  uint64_t size_ = 0;
};

/// The result of `call`, whose errors then name the file.
template <typename Call>
auto naming(const std::string& path, const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    throw ConfigError(fmt::format("--model {}: {}", path, plain_text(error.what())), error.advice());
  }
}

}  // namespace

NetworkFile read_network_file(const std::string& path) {
  return naming(path, [&] {
    const Archive archive(path);
    NetworkFile file = network_file::read_description(archive);
    archive.check();
    file.path = path;
    return file;
  });
}

void read_values(const NetworkFile& file, std::span<const network_file::Tensor> tensors,
                 std::span<char* const> places) {
  naming(file.path, [&] {
    const std::string all = Archive(file.path).read(network_file::kValues, kAnySize);
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].position + tensors[i].bytes > all.size()) throw Error("it changed while it was read");
      std::copy_n(all.data() + tensors[i].position, tensors[i].bytes, places[i]);
    }
  });
}

}  // namespace lockstep::models
