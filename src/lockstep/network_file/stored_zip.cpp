#include "lockstep/network_file/stored_zip.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "lockstep/base/error.h"

namespace lockstep::network_file {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kDirectoryEntry = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50;
constexpr uint32_t kEnd64Locator = 0x07064b50;
constexpr uint64_t kLocalHeaderBytes = 30;
constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kEnd64Bytes = 56;
constexpr uint64_t kLocatorBytes = 20;
constexpr uint64_t kMaxCommentBytes = 65535;
/// A file has about four entries per graph.
constexpr uint64_t kMaxEntries = 10'000;
constexpr uint64_t kMaxDirectoryBytes = 16 << 20;
/// Sizes and positions that do not fit stand in the extra field of this kind.
constexpr uint32_t kSeeExtra = 0xffffffff;
constexpr uint16_t kExtra64 = 1;

[[noreturn]] void damaged(const std::string& what) {
  throw Error("it is cut off or damaged: " + what);
}

/// Reads little-endian numbers one after the other.
class Numbers {
 public:
  /// `bytes` must outlive this.
  explicit Numbers(std::string_view bytes) : bytes_(bytes) {}
  explicit Numbers(std::string&& bytes) = delete;

  template <typename Number>
  Number next() {
    Number number = 0;
    const std::string_view bytes = take(sizeof(Number));
    std::memcpy(&number, bytes.data(), sizeof(Number));
    return number;
  }
  std::string_view take(size_t count) {
    if (count > bytes_.size()) damaged("a header ends too early");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  bool empty() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

struct Directory {
  uint64_t entries = 0;
  uint64_t size = 0;
  uint64_t position = 0;
};

}  // namespace

StoredZip::StoredZip(const std::string& path)
    : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (file_ < 0) throw Error(std::strerror(errno));
  try {
    struct stat status = {};
    if (::fstat(file_, &status) != 0) throw Error(std::strerror(errno));
    if (!S_ISREG(status.st_mode)) throw Error("it is not a regular file");
    size_ = static_cast<uint64_t>(status.st_size);
    read_directory();
  } catch (...) {
    ::close(file_);
    throw;
  }
}

StoredZip::~StoredZip() {
  ::close(file_);
}

void StoredZip::read_at(uint64_t position, std::span<char> into) const {
  if (position > size_ || into.size() > size_ - position) damaged("it refers to bytes after its end");
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t count =
        ::pread(file_, into.data() + done, into.size() - done, static_cast<off_t>(position + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw Error(std::strerror(errno));
    if (count == 0) damaged("it became shorter while it was read");
    done += static_cast<size_t>(count);
  }
}

std::string StoredZip::read_at(uint64_t position, uint64_t size) const {
  // Checked before memory is asked for: the size is the file's claim.
  if (position > size_ || size > size_ - position) damaged("it refers to bytes after its end");
  std::string bytes(size, '\0');
  read_at(position, std::span(bytes));
  return bytes;
}

void StoredZip::read_directory() {
  const std::string tail = read_at(size_ - std::min(size_, kEndBytes + kMaxCommentBytes),
                                   std::min(size_, kEndBytes + kMaxCommentBytes));
  const size_t found = tail.rfind("PK\x05\x06");
  if (found == std::string::npos || tail.size() - found < kEndBytes) {
    throw Error("it is not a ZIP archive, or it is cut off");
  }
  const uint64_t end = size_ - tail.size() + found;
  Numbers numbers(std::string_view(tail).substr(found));
  if (numbers.next<uint32_t>() != kEnd) damaged("it has no end record");
  numbers.take(6);
  Directory directory;
  directory.entries = numbers.next<uint16_t>();
  directory.size = numbers.next<uint32_t>();
  directory.position = numbers.next<uint32_t>();
  if (end >= kLocatorBytes) {
    const std::string before_end = read_at(end - kLocatorBytes, kLocatorBytes);
    Numbers locator(before_end);
    if (locator.next<uint32_t>() == kEnd64Locator) {
      locator.take(4);
      const std::string bytes = read_at(locator.next<uint64_t>(), kEnd64Bytes);
      Numbers wide(bytes);
      if (wide.next<uint32_t>() != kEnd64) damaged("its 64-bit end record is missing");
      wide.take(28);
      directory.entries = wide.next<uint64_t>();
      directory.size = wide.next<uint64_t>();
      directory.position = wide.next<uint64_t>();
    }
  }
  if (directory.entries > kMaxEntries || directory.size > kMaxDirectoryBytes) {
    throw Error(fmt::format("it has {} entries", directory.entries), "A network's file has a few per graph.");
  }
  const std::string bytes = read_at(directory.position, directory.size);
  Numbers entries(bytes);
  for (uint64_t i = 0; i < directory.entries; ++i) {
    if (entries.next<uint32_t>() != kDirectoryEntry) damaged("its list of entries is broken");
    entries.take(4);
    const auto flags = entries.next<uint16_t>();
    const auto method = entries.next<uint16_t>();
    entries.take(4);
    Entry entry;
    entry.checksum = entries.next<uint32_t>();
    uint64_t packed = entries.next<uint32_t>();
    entry.size = entries.next<uint32_t>();
    const auto name_bytes = entries.next<uint16_t>();
    const auto extra_bytes = entries.next<uint16_t>();
    const auto comment_bytes = entries.next<uint16_t>();
    entries.take(8);
    entry.header = entries.next<uint32_t>();
    const std::string_view name = entries.take(name_bytes);
    Numbers extra(entries.take(extra_bytes));
    entries.take(comment_bytes);
    while (!extra.empty()) {
      const auto kind = extra.next<uint16_t>();
      Numbers field(extra.take(extra.next<uint16_t>()));
      if (kind != kExtra64) continue;
      for (uint64_t* wide : {&entry.size, &packed, &entry.header}) {
        if (*wide == kSeeExtra) *wide = field.next<uint64_t>();
      }
    }
    // Bit 0: encrypted.
    if (method != 0 || packed != entry.size || (flags & 1) != 0) {
      throw Error(fmt::format("its entry '{}' is compressed or encrypted", name),
                  "Networks' files are stored as they are.");
    }
    add(name, entry);
  }
}

void StoredZip::add(std::string_view name, const Entry& entry) {
  const size_t slash = name.find('/');
  if (slash == std::string_view::npos || slash == 0)
    throw Error(fmt::format("its entry '{}' is in no folder", name));
  const std::string_view root = name.substr(0, slash);
  if (entries_.empty()) root_ = root;
  if (root != root_) throw Error(fmt::format("it has two folders, '{}' and '{}'", root_, root));
  // LibTorch's reader looks names up without regard to case, so two that differ in it would be one.
  std::string lower(name.substr(slash + 1));
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (!entries_.emplace(lower, entry).second) throw Error(fmt::format("it has two entries '{}'", name));
}

const StoredZip::Entry& StoredZip::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw Error(fmt::format("it has no entry '{}'", name));
  return found->second;
}

void StoredZip::read(const std::string& name, std::span<char> into) const {
  const Entry& found = entry(name);
  const std::string header = read_at(found.header, kLocalHeaderBytes);
  Numbers numbers(header);
  if (numbers.next<uint32_t>() != kLocalHeader) damaged(fmt::format("entry '{}' has no header", name));
  numbers.take(22);
  const uint64_t name_bytes = numbers.next<uint16_t>();
  const uint64_t extra_bytes = numbers.next<uint16_t>();
  read_at(found.header + kLocalHeaderBytes + name_bytes + extra_bytes, into);
  const auto* bytes = reinterpret_cast<const Bytef*>(into.data());
  if (crc32_z(0, bytes, into.size()) != found.checksum) {
    damaged(fmt::format("the checksum of entry '{}' is wrong", name));
  }
}

std::string StoredZip::read(const std::string& name, uint64_t limit) const {
  const uint64_t size = size_of(name);
  if (size > limit)
    throw Error(fmt::format("its entry '{}' has {} bytes; at most {} are read", name, size, limit));
  if (size > size_) damaged("it refers to bytes after its end");
  std::string content(size, '\0');
  read(name, std::span(content));
  return content;
}

}  // namespace lockstep::network_file
