#include "lockstep/recordings/trace_text.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <zlib.h>

#include "lockstep/base/error.h"

namespace lockstep::recordings {

/// Reads files that are not compressed, too.
struct TraceText::File {
  explicit File(const std::filesystem::path& path) : gz(gzopen(path.c_str(), "rbe")) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (gz != nullptr) gzclose(gz);
  }
  gzFile gz;
};

TraceText TraceText::open(const std::filesystem::path& path) {
  errno = 0;
  auto file = std::make_shared<File>(path);
  if (file->gz == nullptr)
    throw Error(fmt::format("'{}' cannot be read: {}", path.string(), std::strerror(errno)));
  gzbuffer(file->gz, kChunk);
  return {std::move(file), path.string()};
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

int64_t TraceText::position() const {
  return read_ - (chunk_end_ - at_);
}

void TraceText::fill() {
  if (file_ == nullptr) return;
  errno = 0;
  const int count = gzread(file_->gz, chunk_.data(), static_cast<unsigned>(chunk_.size()));
  at_ = chunk_.data();
  chunk_end_ = at_ + std::max(count, 0);
  read_ += std::max(count, 0);
  int code = Z_OK;
  const char* reason = gzerror(file_->gz, &code);
  if (count <= 0 && code == Z_BUF_ERROR) {
    throw Error(fmt::format("'{}' is cut off: its compressed data end after {} bytes of text", name_, read_),
                "Copy it again; a profiler that was ended while it wrote leaves such a file.");
  }
  if (count < 0) {
    throw Error(fmt::format("'{}' cannot be read beyond byte {} of its text: {}", name_, read_,
                            code == Z_ERRNO ? std::strerror(errno) : reason),
                "Copy it again.");
  }
  const void* quote = memrchr(chunk_.data(), '"', static_cast<size_t>(count));
  unquoted_ = quote == nullptr ? unquoted_ + static_cast<size_t>(count)
                               : static_cast<size_t>(chunk_end_ - static_cast<const char*>(quote));
  if (unquoted_ > kMostToken)
    throw Error(fmt::format("'{}' is no trace: a single text of more than {} MiB ends at byte {}", name_,
                            kMostToken >> 20, read_));
}

}  // namespace lockstep::recordings
