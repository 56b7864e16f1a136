#include "lockstep/data/stored_tensor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

/// NumPy has no such numbers.
constexpr const char* kNone = "none";

constexpr std::array kTypes{
    ElementType{"float32", "<f4", "F32", 4}, ElementType{"float64", "<f8", "F64", 8},
    ElementType{"float16", "<f2", "F16", 2}, ElementType{"bfloat16", kNone, "BF16", 2},
    ElementType{"int64", "<i8", "I64", 8},   ElementType{"int32", "<i4", "I32", 4},
    ElementType{"int16", "<i2", "I16", 2},   ElementType{"int8", "|i1", "I8", 1},
    ElementType{"uint8", "|u1", "U8", 1},    ElementType{"bool", "|b1", "BOOL", 1},
};

}  // namespace

const ElementType& element_type(const char* ElementType::*column, const std::string& name,
                                const std::string& file) {
  const auto found =
      std::ranges::find_if(kTypes, [&](const ElementType& type) { return name == type.*column; });
  if (found != kTypes.end()) return *found;
  throw Error(fmt::format("'{}' has values of type {}, which cannot be read", file, name),
              "Save them as one of PyTorch's types in little-endian order: float32, int64, ...");
}

void refuse_header(const std::string& file, const char* what) {
  throw Error(fmt::format("'{}' has a damaged header: {}", file, what), "Save it again.");
}

uint64_t little_endian_at(std::string_view header, size_t at, size_t size, const std::string& file) {
  if (header.size() < at + size) refuse_header(file, "the file ends in it");
  uint64_t number = 0;
  for (size_t i = size; i-- > 0;) number = number << 8U | static_cast<unsigned char>(header[at + i]);
  return number;
}

std::string_view header_text(std::string_view begin, size_t prefix, uint64_t size, size_t most,
                             const std::string& file) {
  if (size > most) refuse_header(file, "it is longer than any description of tensors");
  if (begin.size() < prefix + size) refuse_header(file, "the file ends in it");
  return begin.substr(prefix, size);
}

StoredTensor place_tensor(const ElementType& type, std::vector<int64_t> shape, uint64_t position,
                          uint64_t end, const std::string& file) {
  // Without the zeros among the sizes, so that strides do not overflow either.
  auto most = static_cast<int64_t>(type.bytes);
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(most, std::max<int64_t>(size, 1), &most)) {
      refuse_header(file, "a shape that no file can have");
    }
  }
  const uint64_t bytes = std::ranges::find(shape, 0) != shape.end() ? 0 : static_cast<uint64_t>(most);
  if (position > end || bytes > end - position) {
    throw Error(fmt::format("'{}' has {} bytes of values, but its header announces {}", file,
                            position > end ? 0 : end - position, bytes),
                "It may have been truncated: copy it again.");
  }
  return {.file = file, .type = type.name, .shape = std::move(shape), .position = position, .bytes = bytes};
}

PositionedFile::PositionedFile(std::filesystem::path path)
    // Without O_NONBLOCK a named pipe that nobody writes to would block here for ever.
    : path_(std::move(path)), file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  struct ::stat status {};
  if (file_ < 0 || ::fstat(file_, &status) != 0) {
    throw Error(fmt::format("cannot read '{}': {}", path_.string(), std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(file_);
    throw Error(fmt::format("'{}' is no file", path_.string()));
  }
  bytes_ = static_cast<uint64_t>(status.st_size);
}

PositionedFile::PositionedFile(PositionedFile&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)), bytes_(other.bytes_) {}

PositionedFile::~PositionedFile() {
  if (file_ >= 0) ::close(file_);
}

void PositionedFile::read(uint64_t position, std::span<char> into) const {
  while (!into.empty()) {
    const ssize_t count = ::pread(file_, into.data(), into.size(), static_cast<off_t>(position));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw Error(fmt::format("cannot read '{}': {}", path_.string(), std::strerror(errno)));
    if (count == 0) {
      throw Error(fmt::format("'{}' has become shorter while it was read", path_.string()));
    }
    into = into.subspan(static_cast<size_t>(count));
    position += static_cast<uint64_t>(count);
  }
}

}  // namespace lockstep::data
