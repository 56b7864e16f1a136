#include "lockstep/data/tensor_folder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <regex>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep::data {
namespace fs = std::filesystem;
namespace {

/// Bytes at the beginning of a file that may be its header. A tensor takes about 100 of them; one of
/// NumPy's has one tensor.
constexpr size_t kMostOfNpy = size_t{1} << 12;
constexpr size_t kMostOfSafetensors = size_t{1} << 20;
constexpr std::string_view kNpy = ".npy";
constexpr std::string_view kSafetensors = ".safetensors";

/// NumPy has no such numbers.
constexpr const char* kNone = "none";

struct Type {
  const char* name;
  const char* in_npy;
  const char* in_safetensors;
  uint64_t bytes;
};
constexpr std::array kTypes{
    Type{"float32", "<f4", "F32", 4},   Type{"float64", "<f8", "F64", 8}, Type{"float16", "<f2", "F16", 2},
    Type{"bfloat16", kNone, "BF16", 2}, Type{"int64", "<i8", "I64", 8},   Type{"int32", "<i4", "I32", 4},
    Type{"int16", "<i2", "I16", 2},     Type{"int8", "|i1", "I8", 1},     Type{"uint8", "|u1", "U8", 1},
    Type{"bool", "|b1", "BOOL", 1},
};

[[noreturn]] void refuse_type(const std::string& name, const std::string& type) {
  throw Error(fmt::format("'{}' has values of type {}, which cannot be read", name, type),
              "Save them as one of PyTorch's types in little-endian order: float32, int64, ...");
}

[[noreturn]] void refuse_header(const std::string& name, const char* what) {
  throw Error(fmt::format("'{}' has a damaged header: {}", name, what), "Save it again.");
}

const Type& type_by(const char* Type::*column, const std::string& spelling, const std::string& name) {
  const auto found = std::ranges::find_if(kTypes, [&](const Type& type) { return spelling == type.*column; });
  if (found == kTypes.end()) refuse_type(name, spelling);
  return *found;
}

/// A little-endian number of `size` bytes at `at`.
uint64_t number_at(std::string_view bytes, size_t at, size_t size, const std::string& name) {
  if (bytes.size() < at + size) refuse_header(name, "the file ends in it");
  uint64_t number = 0;
  for (size_t i = size; i-- > 0;) number = number << 8U | static_cast<unsigned char>(bytes[at + i]);
  return number;
}

/// The header's text of `size` bytes, after a prefix.
std::string_view header_text(std::string_view begin, size_t prefix, uint64_t size, size_t most,
                             const std::string& name) {
  if (size > most - prefix) refuse_header(name, "it is longer than any description of tensors");
  if (begin.size() < prefix + size) refuse_header(name, "the file ends in it");
  return begin.substr(prefix, size);
}

/// Completes and checks a tensor that begins at `position` and should end at or before `end`.
StoredTensor place_tensor(const Type& type, std::vector<int64_t> shape, uint64_t position, uint64_t end,
                          const std::string& name) {
  if (shape.empty() || shape.front() < 1) {
    throw Error(fmt::format("'{}' has no samples", name), "The first dimension counts them.");
  }
  uint64_t bytes = type.bytes;
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) {
      refuse_header(name, "a shape that no file can have");
    }
  }
  if (position > end || bytes > end - position) {
    throw Error(fmt::format("'{}' has {} bytes of values, but its header announces {}", name,
                            position > end ? 0 : end - position, bytes),
                "It may have been truncated: copy it again.");
  }
  const uint64_t per_sample = bytes / static_cast<uint64_t>(shape.front());
  return {.file = name,
          .type = type.name,
          .shape = std::move(shape),
          .position = position,
          .bytes_per_sample = per_sample};
}

/// The shape "3, 224, 224" or "8,".
std::vector<int64_t> parse_shape(std::string_view text, const std::string& name) {
  std::vector<int64_t> shape;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == ' ' || text[at] == ',') {
      ++at;
      continue;
    }
    int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), size);
    if (error != std::errc{}) refuse_header(name, "a shape that is none");
    shape.push_back(size);
    at = static_cast<size_t>(end - text.data());
  }
  return shape;
}

/// What `pattern` captures in the header.
std::string captured(const std::string& header, const char* pattern, const char* what,
                     const std::string& name) {
  std::smatch match;
  if (!std::regex_search(header, match, std::regex(pattern))) refuse_header(name, what);
  return match[1];
}

std::vector<fs::path> files_with(const fs::path& folder, std::string_view ending) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ending) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

uint64_t size_of(const fs::path& file) {
  if (!fs::is_regular_file(file)) throw Error(fmt::format("'{}' is no file", file.string()));
  return fs::file_size(file);
}

void add(StoredTensors& all, const std::string& name, StoredTensor tensor) {
  const auto [place, is_new] = all.try_emplace(name, tensor);
  if (is_new) return;
  throw ConfigError(fmt::format("the tensor '{}' is in '{}' and in '{}'", name, place->second.file.string(),
                                tensor.file.string()),
                    "Keep one of them.");
}

}  // namespace

// Source of the layout: NumPy's documentation of numpy.lib.format.
StoredTensor parse_npy(std::string_view begin, uint64_t file_bytes, const std::string& name) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (!begin.starts_with(kMagic)) throw Error(fmt::format("'{}' is no file of NumPy's", name));
  const uint64_t version = number_at(begin, kMagic.size(), 1, name);
  if (version < 1 || version > 3) {
    throw Error(fmt::format("'{}' has version {} of NumPy's format, not 1 to 3", name, version));
  }
  const size_t size_bytes = version == 1 ? 2 : 4;
  const size_t prefix = kMagic.size() + 2 + size_bytes;
  const std::string header(
      header_text(begin, prefix, number_at(begin, prefix - size_bytes, size_bytes, name), kMostOfNpy, name));
  const std::string type = captured(header, R"('descr':\s*'([^']*)')", "no type", name);
  if (captured(header, R"('fortran_order':\s*(\w+))", "no order", name) != "False") {
    throw Error(fmt::format("'{}' has the first dimension running fastest", name),
                "Save numpy.ascontiguousarray(...) of it.");
  }
  const std::string shape = captured(header, R"('shape':\s*\(([^)]*)\))", "no shape", name);
  return place_tensor(type_by(&Type::in_npy, type, name), parse_shape(shape, name), prefix + header.size(),
                      file_bytes, name);
}

// Source of the layout: the README of safetensors, section "Format".
StoredTensors parse_safetensors(std::string_view begin, uint64_t file_bytes, const std::string& name) {
  constexpr size_t kPrefix = 8;
  const std::string_view header =
      header_text(begin, kPrefix, number_at(begin, 0, kPrefix, name), kMostOfSafetensors, name);
  StoredTensors all;
  try {
    const nlohmann::json tensors = nlohmann::json::parse(header);
    for (const auto& [tensor, facts] : tensors.items()) {
      if (tensor == "__metadata__") continue;
      const auto [from, to] = facts.at("data_offsets").get<std::pair<uint64_t, uint64_t>>();
      const uint64_t values = kPrefix + header.size();
      if (to > file_bytes - values) refuse_header(name, "values beyond the end of the file");
      add(all, tensor,
          place_tensor(type_by(&Type::in_safetensors, facts.at("dtype").get<std::string>(), name),
                       facts.at("shape").get<std::vector<int64_t>>(), values + from, values + to, name));
    }
  } catch (const nlohmann::json::exception&) {
    refuse_header(name, "it is no description of tensors");
  }
  return all;
}

bool has_tensor_files(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const fs::path ending = entry.path().extension();
    if (ending == kNpy || ending == kSafetensors) return true;
  }
  return false;
}

StoredTensors find_tensors(const fs::path& folder) {
  StoredTensors all;
  try {
    if (!fs::is_directory(folder)) {
      throw ConfigError(fmt::format("there is no folder '{}'", folder.string()));
    }
    for (const fs::path& file : files_with(folder, kNpy)) {
      const uint64_t size = size_of(file);
      add(all, file.stem(), parse_npy(read_ends(file, kMostOfNpy).first, size, file));
    }
    for (const fs::path& file : files_with(folder, kSafetensors)) {
      const uint64_t size = size_of(file);
      for (auto& [name, tensor] : parse_safetensors(read_ends(file, kMostOfSafetensors).first, size, file)) {
        add(all, name, std::move(tensor));
      }
    }
  } catch (const fs::filesystem_error& error) {
    throw Error(fmt::format("cannot read '{}': {}", error.path1().string(), error.code().message()));
  }
  if (all.empty()) {
    throw ConfigError(fmt::format("'{}' holds no tensors", folder.string()),
                      "Files NAME.npy or *.safetensors; docs/your-network.md says how to save them.");
  }
  return all;
}

SampleFile::SampleFile(StoredTensor tensor)
    : tensor_(std::move(tensor)), file_(::open(tensor_.file.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (file_ < 0) {
    throw Error(fmt::format("cannot open '{}': {}", tensor_.file.string(), std::strerror(errno)));
  }
}

SampleFile::~SampleFile() {
  ::close(file_);
}

void SampleFile::read(int64_t sample, std::span<char> into) const {
  uint64_t position = tensor_.position + static_cast<uint64_t>(sample) * tensor_.bytes_per_sample;
  while (!into.empty()) {
    const ssize_t count = ::pread(file_, into.data(), into.size(), static_cast<off_t>(position));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw Error(fmt::format("cannot read '{}': {}", tensor_.file.string(), std::strerror(errno)));
    }
    if (count == 0) {
      throw Error(fmt::format("'{}' has become shorter while it was read", tensor_.file.string()));
    }
    into = into.subspan(static_cast<size_t>(count));
    position += static_cast<uint64_t>(count);
  }
}

}  // namespace lockstep::data
