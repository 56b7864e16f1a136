#include "lockstep/strategies/units.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include "lockstep/base/units.h"

namespace lockstep::strategies {
namespace {

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

/// The path without the tensor's own name.
std::string_view layer_of(std::string_view name) {
  const size_t end = name.rfind('.');
  return name.substr(0, end == std::string_view::npos ? 0 : end);
}

/// The path to the first component with a number, and to the one behind it if that is a number itself;
/// without any, to the tensor's layer.
std::string_view block_of(std::string_view name) {
  const std::string_view layer = layer_of(name);
  bool numbered = false;
  for (size_t begin = 0; begin < layer.size();) {
    const size_t end = std::min(layer.find('.', begin), layer.size());
    const std::string_view component = layer.substr(begin, end - begin);
    if (numbered)
      return std::ranges::all_of(component, is_digit) ? layer.substr(0, end) : layer.substr(0, begin - 1);
    numbered = !component.empty() && is_digit(component.back());
    begin = end + 1;
  }
  return layer;
}

using Group = std::vector<size_t>;

}  // namespace

std::vector<Group> plan_units(const std::vector<replica::NamedTensor>& parameters, int64_t cap_bytes) {
  const auto bytes_of = [&](const Group& group) {
    int64_t bytes = 0;
    for (const size_t index : group) bytes += static_cast<int64_t>(parameters[index].value.nbytes());
    return bytes;
  };
  // Adds a parameter to the last group if both have the same path, else as a new group.
  const auto add = [&](std::vector<Group>& groups, size_t index, const auto& path_of) {
    const std::string_view path = path_of(parameters[index].name);
    if (groups.empty() || path.empty() || path_of(parameters[groups.back().back()].name) != path)
      groups.emplace_back();
    groups.back().push_back(index);
  };
  std::vector<Group> blocks, pieces;
  for (size_t index = parameters.size(); index-- > 0;) add(blocks, index, block_of);
  for (const Group& block : blocks) {
    std::vector<Group> layers;
    for (const size_t index : block) add(layers, index, layer_of);
    if (bytes_of(block) <= cap_bytes) layers = {block};
    pieces.insert(pieces.end(), layers.begin(), layers.end());
  }
  int64_t last_bytes = 0;
  size_t last = pieces.size();
  while (last > 0) {
    last_bytes += bytes_of(pieces[last - 1]);
    if (last < pieces.size() && last_bytes > std::min(cap_bytes, kMiB)) break;
    --last;
  }
  std::vector<Group> units;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const bool joins =
        !units.empty() && i != last && bytes_of(units.back()) + bytes_of(pieces[i]) <= cap_bytes;
    // All that comes after `last` fits.
    if (!joins && !(i > last)) units.emplace_back();
    units.back().insert(units.back().end(), pieces[i].begin(), pieces[i].end());
  }
  for (Group& unit : units) {
    std::ranges::stable_partition(unit, [&](size_t index) { return parameters[index].value.dim() >= 2; });
  }
  return units;
}

}  // namespace lockstep::strategies
