#include "lockstep/data/safetensors.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_node.h"
#include "lockstep/base/secret.h"

// Source of the layout: the README of safetensors, section "Format".
//
//   8 bytes   size of the header, little-endian
//   header    {"__metadata__": {KEY: TEXT}, NAME: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
//   values    of all tensors, one after the other

namespace lockstep::data {
namespace {

constexpr size_t kPrefix = 8;
/// As in the library of the format.
constexpr size_t kMostOfHeader = 100'000'000;
constexpr const char* kMetadata = "__metadata__";

constexpr size_t kDigestBytes = 32;
const std::string kNoChecksum(2 * kDigestBytes, '0');

class Digest {
 public:
  Digest() {
    // Chooses the fastest code for this processor.
    if (::sodium_init() < 0) throw Error("libsodium cannot start");
    ::crypto_generichash_init(&state_, nullptr, 0, kDigestBytes);
  }
  void add(std::string_view bytes) {
    ::crypto_generichash_update(&state_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  }
  std::string text() {
    std::string bytes(kDigestBytes, '\0');
    ::crypto_generichash_final(&state_, reinterpret_cast<unsigned char*>(bytes.data()), bytes.size());
    return to_hexadecimal(bytes);
  }

 private:
  ::crypto_generichash_state state_{};
};

std::string read_begin(const PositionedFile& file) {
  std::string begin(std::min<uint64_t>(file.bytes(), kPrefix), '\0');
  file.read(0, begin);
  const uint64_t size = little_endian_at(begin, 0, kPrefix, file.path());
  begin.resize(std::min(file.bytes(), kPrefix + std::min<uint64_t>(size, kMostOfHeader)));
  file.read(0, begin);
  return begin;
}

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

Safetensors parse_safetensors(std::string_view begin, uint64_t file_bytes, const std::string& name) {
  const std::string_view header =
      header_text(begin, kPrefix, little_endian_at(begin, 0, kPrefix, name), kMostOfHeader, name);
  const uint64_t values = kPrefix + header.size();
  Safetensors found;
  try {
    const nlohmann::json entries = nlohmann::json::parse(header);
    for (const auto& [tensor, entry] : entries.items()) {
      if (tensor == kMetadata) {
        found.metadata = entry.get<std::map<std::string, std::string>>();
        continue;
      }
      const auto from = static_cast<uint64_t>(whole_number(entry.at("data_offsets").at(0)));
      const auto to = static_cast<uint64_t>(whole_number(entry.at("data_offsets").at(1)));
      if (to > file_bytes - values) refuse_header(name, "values beyond the end of the file");
      found.tensors[tensor] =
          place_tensor(element_type(&ElementType::in_safetensors, entry.at("dtype").get<std::string>(), name),
                       whole_numbers(entry.at("shape")), values + from, values + to, name);
    }
  } catch (const nlohmann::json::exception&) {
    refuse_header(name, "it is no description of tensors");
  }
  return found;
}

Safetensors read_safetensors(const PositionedFile& file) {
  return parse_safetensors(read_begin(file), file.bytes(), file.path());
}

void check_checksum(const PositionedFile& file, const Safetensors& found) {
  const auto checksum = found.metadata.find(kChecksumKey);
  if (checksum == found.metadata.end()) return;
  std::string part = read_begin(file);
  const size_t digits = part.find(checksum->second);
  if (checksum->second.size() == kNoChecksum.size() && digits != std::string::npos) {
    uint64_t position = part.size();
    part.replace(digits, kNoChecksum.size(), kNoChecksum);
    Digest digest;
    while (true) {
      digest.add(part);
      constexpr uint64_t kPart = 1 << 20;
      part.resize(std::min(kPart, file.bytes() - position));
      if (part.empty()) break;
      file.read(position, part);
      position += part.size();
    }
    if (digest.text() == checksum->second) return;
  }
  throw Error(fmt::format("'{}' is damaged: its contents are not what was written", file.path().string()),
              "Take another file; this one's disk or transfer may be at fault.");
}

void write_safetensors(const std::filesystem::path& path, std::vector<TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const auto type_of = [&](const TensorToWrite& tensor) -> const ElementType& {
    return element_type(&ElementType::name, tensor.type, path);
  };
  // Readers map the file and expect aligned values: the widest come first.
  std::ranges::stable_sort(tensors, std::greater(),
                           [&](const auto& tensor) { return type_of(tensor).bytes; });
  // First of all, so that its place is known.
  nlohmann::ordered_json header{{kMetadata, {{kChecksumKey, kNoChecksum}}}};
  header[kMetadata].update(metadata);
  uint64_t end = 0;
  for (const TensorToWrite& tensor : tensors) {
    const uint64_t from = std::exchange(end, end + tensor.values.size());
    header[tensor.name] = {
        {"dtype", type_of(tensor).in_safetensors}, {"shape", tensor.shape}, {"data_offsets", {from, end}}};
  }
  // Invalid UTF-8 in the name of a file must not end the writing of a checkpoint.
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + kPrefix - 1) / kPrefix * kPrefix, ' ');
  std::string begin;
  for (size_t i = 0; i < kPrefix; ++i) begin += static_cast<char>(text.size() >> 8 * i);
  begin += text;

  Digest digest;
  digest.add(begin);
  for (const TensorToWrite& tensor : tensors) digest.add(tensor.values);
  begin.replace(begin.find(kNoChecksum), kNoChecksum.size(), digest.text());
  std::vector<std::string_view> parts{begin};
  for (const TensorToWrite& tensor : tensors) parts.push_back(tensor.values);
  write_file_atomically(path, parts);
}

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
  if (!file_ || ::fstat(file_.get(), &status) != 0) {
    throw Error(fmt::format("cannot read '{}': {}", path_.string(), std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) throw Error(fmt::format("'{}' is no file", path_.string()));
  bytes_ = static_cast<uint64_t>(status.st_size);
}

void PositionedFile::read(uint64_t position, std::span<char> into) const {
  while (!into.empty()) {
    const ssize_t count = ::pread(file_.get(), into.data(), into.size(), static_cast<off_t>(position));
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
