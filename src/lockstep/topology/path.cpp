#include "lockstep/topology/path.h"

#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>

namespace lockstep::topology {
namespace {

constexpr std::string_view kNvlinkPrefix = "NV";

/// More than any GPU has or will have for a while; what is above was mistyped.
constexpr int kMostNvlinks = 1000;

constexpr std::array<std::pair<PathKind, std::string_view>, 7> kNames{{
    {PathKind::kUnknown, "N/A"},
    {PathKind::kSystem, "SYS"},
    {PathKind::kNode, "NODE"},
    {PathKind::kHostBridge, "PHB"},
    {PathKind::kSwitches, "PXB"},
    {PathKind::kSwitch, "PIX"},
    {PathKind::kSelf, "X"},
}};

}  // namespace

std::string to_string(const Path& path) {
  if (path.kind == PathKind::kNvlink) return fmt::format("{}{}", kNvlinkPrefix, path.nvlinks);
  for (const auto& [kind, name] : kNames) {
    if (kind == path.kind) return std::string(name);
  }
  return "N/A";
}

std::optional<Path> parse_path(std::string_view text) {
  for (const auto& [kind, name] : kNames) {
    if (text == name) return Path{kind, 0};
  }
  if (!text.starts_with(kNvlinkPrefix)) return std::nullopt;
  text.remove_prefix(kNvlinkPrefix.size());
  int links = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), links);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (links < 1 || links > kMostNvlinks) return std::nullopt;
  return Path{PathKind::kNvlink, links};
}

}  // namespace lockstep::topology
