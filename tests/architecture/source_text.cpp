#include "architecture/source_text.h"

#include <algorithm>
#include <cctype>

namespace lockstep::architecture {
namespace {

/// Where the literal or comment that begins at `begin` ends (one past its last character); `begin` itself
/// where none begins there.
size_t end_of_quoted(std::string_view text, size_t begin) {
  const std::string_view rest = text.substr(begin);
  const auto ends_after = [&](std::string_view closing, size_t from) {
    const size_t at = text.find(closing, from);
    return at == std::string_view::npos ? text.size() : at + closing.size();
  };
  if (rest.starts_with("//")) return std::min(text.find('\n', begin), text.size());
  if (rest.starts_with("/*")) return ends_after("*/", begin + 2);
  if (rest.starts_with("R\"")) {
    const size_t open = text.find('(', begin);
    if (open == std::string_view::npos) return text.size();
    const std::string closing = ")" + std::string(text.substr(begin + 2, open - begin - 2)) + "\"";
    return ends_after(closing, open);
  }
  const char quote = rest.front();
  const bool digit_separator =
      quote == '\'' && begin > 0 && std::isalnum(static_cast<unsigned char>(text[begin - 1]));
  if ((quote != '"' && quote != '\'') || digit_separator) return begin;
  size_t at = begin + 1;
  while (at < text.size() && text[at] != quote && text[at] != '\n') at += text[at] == '\\' ? 2 : 1;
  return std::min(at + 1, text.size());
}

}  // namespace

std::string code_only(std::string_view source) {
  std::string code(source);
  for (size_t at = 0; at < source.size();) {
    const size_t end = end_of_quoted(source, at);
    for (size_t i = at; i < end; ++i) {
      if (code[i] != '\n') code[i] = ' ';
    }
    at = std::max(end, at + 1);
  }
  return code;
}

}  // namespace lockstep::architecture
