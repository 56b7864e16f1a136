#include "lockstep/data/tensor_folder.h"

#include <algorithm>
#include <charconv>
#include <regex>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/data/safetensors.h"

namespace lockstep::data {
namespace fs = std::filesystem;
namespace {

/// Bytes at the beginning of a file of NumPy's that may be its header, which describes one tensor.
constexpr size_t kMostOfNpy = size_t{1} << 12;
constexpr std::string_view kNpy = ".npy";
constexpr std::string_view kSafetensors = ".safetensors";

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

StoredTensor with_samples(StoredTensor tensor) {
  if (!tensor.shape.empty() && tensor.samples() >= 1) return tensor;
  throw Error(fmt::format("'{}' has no samples", tensor.file.string()), "The first dimension counts them.");
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
  const uint64_t version = little_endian_at(begin, kMagic.size(), 1, name);
  if (version < 1 || version > 3) {
    throw Error(fmt::format("'{}' has version {} of NumPy's format, not 1 to 3", name, version));
  }
  const size_t size_bytes = version == 1 ? 2 : 4;
  const size_t prefix = kMagic.size() + 2 + size_bytes;
  const std::string header(header_text(begin, prefix,
                                       little_endian_at(begin, prefix - size_bytes, size_bytes, name),
                                       kMostOfNpy - prefix, name));
  const std::string type = captured(header, R"('descr':\s*'([^']*)')", "no type", name);
  if (captured(header, R"('fortran_order':\s*(\w+))", "no order", name) != "False") {
    throw Error(fmt::format("'{}' has the first dimension running fastest", name),
                "Save numpy.ascontiguousarray(...) of it.");
  }
  const std::string shape = captured(header, R"('shape':\s*\(([^)]*)\))", "no shape", name);
  return with_samples(place_tensor(element_type(&ElementType::in_npy, type, name), parse_shape(shape, name),
                                   prefix + header.size(), file_bytes, name));
}

bool has_tensor_files(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const fs::path ending = entry.path().extension();
    if (ending == kNpy || ending == kSafetensors) return true;
  }
  return false;
}

StoredTensors find_tensors(const fs::path& folder, const std::vector<std::string>& names) {
  StoredTensors found;
  // Those that are there.
  std::set<std::string> all;
  const auto is_wanted = [&](const std::string& name) {
    all.insert(name);
    return std::ranges::find(names, name) != names.end();
  };
  if (!fs::is_directory(folder)) throw ConfigError(fmt::format("there is no folder '{}'", folder.string()));
  for (const fs::path& file : files_with(folder, kNpy)) {
    if (!is_wanted(file.stem())) continue;
    const PositionedFile opened(file);
    std::string begin(std::min<uint64_t>(opened.bytes(), kMostOfNpy), '\0');
    opened.read(0, begin);
    add(found, file.stem(), parse_npy(begin, opened.bytes(), file));
  }
  for (const fs::path& file : files_with(folder, kSafetensors)) {
    for (const auto& [name, tensor] : read_safetensors(PositionedFile(file)).tensors)
      if (is_wanted(name)) add(found, name, with_samples(tensor));
  }
  if (all.empty()) {
    throw ConfigError(fmt::format("'{}' holds no tensors", folder.string()),
                      "Files NAME.npy or *.safetensors; docs/your-network.md says how to save them.");
  }
  for (const std::string& name : names) {
    if (found.contains(name)) continue;
    throw ConfigError(fmt::format("'{}' has no tensor '{}', which the network takes", folder.string(), name),
                      fmt::format("It has {}.", fmt::join(all, ", ")));
  }
  return found;
}

}  // namespace lockstep::data
