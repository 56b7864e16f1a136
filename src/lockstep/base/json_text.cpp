#include "lockstep/base/json_text.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

/// One line without spaces. Invalid UTF-8 in a host's or file's name must not end the writing of a result.
std::string plain(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Lists of plain values: the samples of one step stay together.
bool fits_one_line(const Json& value) {
  if (value.empty() || !value.is_structured()) return true;
  return value.is_array() &&
         std::ranges::none_of(value, [](const Json& element) { return element.is_structured(); });
}

void append(std::string& text, const Json& value, size_t depth) {
  const bool one_line = fits_one_line(value);
  if (one_line && !value.is_array()) {
    text += plain(value);
    return;
  }
  // dump writes no space after a comma; a list of numbers reads better with one.
  const std::string separator = one_line ? ", " : ",\n" + std::string(2 * (depth + 1), ' ');
  text += value.is_object() ? '{' : '[';
  if (!one_line) text += separator.substr(1);
  bool first = true;
  for (const auto& item : value.items()) {
    if (!std::exchange(first, false)) text += separator;
    if (value.is_object()) text.append(plain(item.key())).append(": ");
    append(text, item.value(), depth + 1);
  }
  if (!one_line) text.append("\n").append(2 * depth, ' ');
  text += value.is_object() ? '}' : ']';
}

}  // namespace

std::string json_text(const Json& json) {
  std::string text;
  append(text, json, 0);
  text += '\n';
  return text;
}

}  // namespace lockstep
