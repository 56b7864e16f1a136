#pragma once

#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/plain_text.h"

namespace lockstep::topology {

/// The contents of a small system file; empty if it cannot be read. Never throws.
std::optional<std::string> read_text(const std::filesystem::path& path);

/// Parts between any of `separators`, empty parts left out.
std::vector<std::string_view> split(std::string_view text, std::string_view separators);

/// The number at the beginning of the text, after white space.
template <typename Number>
std::optional<Number> leading_number(std::string_view text) {
  text = trimmed(text);
  Number value{};
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) return std::nullopt;
  return value;
}

/// The number at the beginning of a file.
template <typename Number>
std::optional<Number> read_number(const std::filesystem::path& path) {
  const std::optional<std::string> text = read_text(path);
  return text ? leading_number<Number>(*text) : std::nullopt;
}

/// The value after `key` and `separator` on the first line of `text` that begins with the key: "KEY = value"
/// in /proc/meminfo, /proc/cpuinfo, os-release, memory.stat.
std::optional<std::string_view> value_of(std::string_view text, std::string_view key, char separator);

}  // namespace lockstep::topology
