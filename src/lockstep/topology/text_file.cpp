#include "lockstep/topology/text_file.h"

#include <fstream>
#include <sstream>

namespace lockstep::topology {

std::optional<std::string> read_text(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  // An empty file sets failbit on `text`, a folder sets badbit on `stream`.
  if (!stream || !(text << stream.rdbuf())) return std::nullopt;
  return std::move(text).str();
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t first = text.find_first_not_of(separators);
    if (first == std::string_view::npos) return parts;
    // Skips separators, then takes all up to the next one.
    text.remove_prefix(first);
    const size_t end = text.find_first_of(separators);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end);
  }
}

std::optional<std::string_view> value_of(std::string_view text, std::string_view key, char separator) {
  for (std::string_view line : split(text, "\n")) {
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    // "Mem" must not match "MemTotal": only spaces may stand before the separator.
    const size_t at = line.find(separator);
    if (at == std::string_view::npos || !trimmed(line.substr(0, at)).empty()) continue;
    return trimmed(line.substr(at + 1));
  }
  return std::nullopt;
}

}  // namespace lockstep::topology
