#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::network_file {

/// A ZIP archive whose entries are stored without compression, as PyTorch writes them. Nothing in it can grow
/// while it is read, and every entry is checked against its checksum. Reads the list of entries on
/// construction, and contents when they are asked for. Not thread-safe.
///
///     | local header, content | local header, content | ... | central directory | end records |
///
/// Source of the layout: PKWARE's APPNOTE 6.3.10, sections 4.3.7 (local header), 4.3.12 (central directory),
/// 4.3.14 to 4.3.16 (end records), 4.5.3 (64-bit sizes).
class StoredZip {
 public:
  /// Throws Error that says what is wrong with the file, without its name.
  explicit StoredZip(const std::string& path);
  ~StoredZip();
  StoredZip(const StoredZip&) = delete;
  StoredZip& operator=(const StoredZip&) = delete;

  bool has(const std::string& name) const { return entries_.contains(name); }
  /// Bytes of an entry. Throws Error if there is none of this name.
  uint64_t size_of(const std::string& name) const { return entry(name).size; }
  /// The content of an entry of at most `limit` bytes.
  std::string read(const std::string& name, uint64_t limit) const;
  /// Reads an entry into `into`, which has its size.
  void read(const std::string& name, std::span<char> into) const;

  /// The folder in which everything lies; names above are without it.
  const std::string& root() const { return root_; }

 private:
  struct Entry {
    uint64_t header = 0;
    uint64_t size = 0;
    uint32_t checksum = 0;
  };

  const Entry& entry(const std::string& name) const;
  void read_at(uint64_t position, std::span<char> into) const;
  std::string read_at(uint64_t position, uint64_t size) const;
  void read_directory();
  void add(std::string_view name, const Entry& entry);

  int file_ = -1;
  uint64_t size_ = 0;
  std::string root_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace lockstep::network_file
