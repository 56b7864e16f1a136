#include "lockstep/results/files/json_text.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace lockstep::results {
namespace {

std::string plain(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool fits_one_line(const Json& value) {
  if (value.empty() || !value.is_structured()) return true;
  return value.is_array() &&
         std::ranges::none_of(value, [](const Json& element) { return element.is_structured(); });
}

void append(std::string& text, const Json& value, size_t depth) {
  if (fits_one_line(value)) {
    // dump writes no space after a comma; a list of numbers reads better with one.
    if (!value.is_array()) {
      text += plain(value);
      return;
    }
    text += '[';
    for (size_t i = 0; i < value.size(); ++i) {
      if (i != 0) text += ", ";
      text += plain(value[i]);
    }
    text += ']';
    return;
  }
  text += value.is_object() ? '{' : '[';
  const char* separator = "\n";
  for (const auto& item : value.items()) {
    text += separator;
    text.append(2 * (depth + 1), ' ');
    if (value.is_object()) text.append(plain(item.key())).append(": ");
    append(text, item.value(), depth + 1);
    separator = ",\n";
  }
  text += '\n';
  text.append(2 * depth, ' ');
  text += value.is_object() ? '}' : ']';
}

}  // namespace

std::string to_text(const Json& json) {
  std::string text;
  append(text, json, 0);
  text += '\n';
  return text;
}

}  // namespace lockstep::results
