#include "lockstep/recordings/trace_text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep::recordings {

namespace {
constexpr size_t kBlock = size_t{1} << 17;
}  // namespace

/// An archive that is being read, or a file that is none, with or without compression.
struct Archive {
  Archive() : read(archive_read_new()) {
    archive_read_support_filter_gzip(read);
    archive_read_support_format_raw(read);
    archive_read_support_format_empty(read);
  }
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;
  ~Archive() { archive_read_free(read); }

  void open(const std::filesystem::path& path) {
    archive_read_support_format_tar(read);
    archive_read_support_format_zip(read);
    require_regular_file(path);
    errno = 0;
    if (archive_read_open_filename(read, path.c_str(), kBlock) != ARCHIVE_OK)
      throw Error(fmt::format("'{}' cannot be read: {}", path.string(),
                              errno != 0 ? std::strerror(errno) : archive_error_string(read)));
  }
  /// Goes on to the next file; false at the end.
  bool next(const std::string& name) {
    const int code = archive_read_next_header(read, &entry);
    if (code == ARCHIVE_EOF) return false;
    if (code < ARCHIVE_WARN)
      throw Error(fmt::format("'{}' is damaged: {}", name, archive_error_string(read)), "Copy it again.");
    return true;
  }
  bool is_one() const {
    const int format = archive_format(read) & ARCHIVE_FORMAT_BASE_MASK;
    return format == ARCHIVE_FORMAT_TAR || format == ARCHIVE_FORMAT_ZIP;
  }

  archive* read;
  archive_entry* entry = nullptr;
};

std::vector<std::string> files_in_archive(const std::filesystem::path& path) {
  Archive archive;
  archive.open(path);
  std::vector<std::string> names;
  while (archive.next(path.string()) && archive.is_one()) {
    if (archive_entry_filetype(archive.entry) == AE_IFREG)
      names.emplace_back(archive_entry_pathname(archive.entry));
  }
  return names;
}

/// A file in an archive may be compressed itself.
struct TraceText::File {
  Archive outer, inner;
  /// The one that is read; null: there is nothing.
  archive* read = outer.read;
  std::vector<char> block;
  std::filesystem::path path;

  void open_inner(const std::string& name) {
    block.resize(kBlock);
    read = inner.read;
    archive_read_open(
        read, this, nullptr,
        [](archive* inside, void* self, const void** bytes) -> la_ssize_t {
          auto& file = *static_cast<File*>(self);
          *bytes = file.block.data();
          const la_ssize_t count = archive_read_data(file.outer.read, file.block.data(), file.block.size());
          if (count < 0) archive_copy_error(inside, file.outer.read);
          return count;
        },
        nullptr);
    if (!inner.next(name)) read = nullptr;
  }
};

TraceText TraceText::open(const std::filesystem::path& path, const std::string& inside) {
  auto file = std::make_shared<File>();
  file->path = path;
  file->outer.open(path);
  std::string name = inside.empty() ? path.string() : fmt::format("{}/{}", path.string(), inside);
  bool found = false;
  do {
    found = file->outer.next(name);
  } while (found && !inside.empty() && archive_entry_pathname(file->outer.entry) != inside);
  if (!found) file->read = nullptr;
  if (found && file->outer.is_one()) file->open_inner(name);
  return {std::move(file), std::move(name)};
}

TraceText::TraceText(std::string_view bytes, std::string name)
    : name_(std::move(name)),
      at_(bytes.data()),
      chunk_end_(bytes.data() + bytes.size()),
      read_(static_cast<int64_t>(bytes.size())) {}

TraceText::TraceText(std::shared_ptr<File> file, std::string name)
    : file_(std::move(file)), name_(std::move(name)), chunk_(kChunk, '\0') {
  fill();
}

double TraceText::share_read() const {
  std::error_code failed;
  const auto size = file_ == nullptr ? 0 : std::filesystem::file_size(file_->path, failed);
  const auto read = file_ == nullptr ? 0 : archive_filter_bytes(file_->outer.read, -1);
  return failed || size == 0 ? 1 : std::min(1.0, static_cast<double>(read) / static_cast<double>(size));
}

int64_t TraceText::position() const {
  return read_ - (chunk_end_ - at_);
}

void TraceText::fill() {
  if (file_ == nullptr) return;
  // Empty files have nothing to read.
  const la_ssize_t count =
      file_->read == nullptr ? 0 : archive_read_data(file_->read, chunk_.data(), chunk_.size());
  at_ = chunk_.data();
  chunk_end_ = at_ + std::max<la_ssize_t>(count, 0);
  read_ += std::max<la_ssize_t>(count, 0);
  if (count < 0) {
    const char* reason = archive_error_string(file_->read);
    const std::string said = reason == nullptr ? "it is damaged" : reason;
    if (said.find("truncated") != std::string::npos) {
      throw Error(
          fmt::format("'{}' is cut off: its compressed data end after {} bytes of text", name_, read_),
          "Copy it again; a profiler that was ended while it wrote leaves such a file.");
    }
    throw Error(fmt::format("'{}' cannot be read beyond byte {} of its text: {}", name_, read_, said),
                "Copy it again.");
  }
  for (const char each : std::string_view(at_, chunk_end_)) {
    unquoted_ = each == '"' && !escaped_ ? 0 : unquoted_ + 1;
    escaped_ = each == '\\' && !escaped_;
  }
  if (unquoted_ > kMostToken)
    throw Error(fmt::format("'{}' is no trace: a single text of more than {} MiB ends at byte {}", name_,
                            kMostToken >> 20, read_));
}

}  // namespace lockstep::recordings
