#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::recordings {

/// Names of the files in an archive (tar, zip), compressed by gzip or not; empty for any other file. Throws
/// Error that names the path for one that cannot be read.
std::vector<std::string> files_in_archive(const std::filesystem::path& path);

/// The text of a trace, read chunk by chunk: a file or one in an archive, compressed by gzip or not, or bytes
/// in memory. Not thread-safe.
class TraceText {
 public:
  /// `inside`: one of files_in_archive(); empty for a file that is no archive. Throws Error that names the
  /// path and the system's reason.
  static TraceText open(const std::filesystem::path& path, const std::string& inside = "");
  /// `bytes` outlive it.
  TraceText(std::string_view bytes, std::string name);

  /// Iterates over the characters once; all copies share one position.
  class Iterator {
   public:
    // NOLINTBEGIN(readability-identifier-naming): std::iterator_traits looks for these names.
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;
    // NOLINTEND(readability-identifier-naming)

    /// The end.
    Iterator() = default;
    explicit Iterator(TraceText& text) : text_(&text) {}

    reference operator*() const { return *text_->at_; }
    Iterator& operator++() {
      if (++text_->at_ == text_->chunk_end_) text_->fill();
      return *this;
    }
    bool operator==(const Iterator& other) const { return ended() == other.ended(); }
    bool operator!=(const Iterator& other) const { return !(*this == other); }

   private:
    bool ended() const { return text_ == nullptr || text_->at_ == text_->chunk_end_; }
    TraceText* text_ = nullptr;
  };

  Iterator begin() { return Iterator(*this); }
  static Iterator end() { return {}; }

  const std::string& name() const { return name_; }
  /// Of a text that was not read yet, its first characters.
  std::string first(size_t most) {
    std::string text;
    for (Iterator at = begin(); at != end() && text.size() < most; ++at) text += *at;
    return text;
  }
  /// Characters before the position, after decompression.
  int64_t position() const;
  /// The part of the file that has been read, before decompression; 1 where that is not known.
  double share_read() const;
  bool ended() const { return at_ == chunk_end_; }

 private:
  struct File;
  TraceText(std::shared_ptr<File> file, std::string name);
  /// Reads the next chunk; at the end there is none. Throws Error for a damaged or truncated gzip file, and
  /// for a text or a number of more than kMostToken characters.
  void fill();

  static constexpr size_t kChunk = size_t{1} << 17;
  static constexpr size_t kMostToken = size_t{1} << 26;

  std::shared_ptr<File> file_;
  std::string name_;
  std::string chunk_;
  const char* at_ = nullptr;
  const char* chunk_end_ = nullptr;
  /// Characters up to the end of the chunk, and since the last quotation mark that is none of a text.
  int64_t read_ = 0;
  size_t unquoted_ = 0;
  /// The next character stands behind a backslash that is none of a text.
  bool escaped_ = false;
};

}  // namespace lockstep::recordings
