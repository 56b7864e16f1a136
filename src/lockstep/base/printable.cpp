#include "lockstep/base/printable.h"

#include <algorithm>

namespace lockstep {
namespace {

/// Bytes of the UTF-8 character that `text` begins with; 0 where it begins with none.
size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x80) return 1;
  const size_t bytes = first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : 4;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return 0;
  const bool whole =
      std::ranges::all_of(text.substr(1, bytes - 1), [](char c) { return (c & 0xc0) == 0x80; });
  return whole ? bytes : 0;
}

bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character.front());
  if (character.size() == 1) return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f;
  // U+0080 to U+009F: terminals take some of them for escape sequences too.
  return character.size() == 2 && first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

}  // namespace

std::string printable(std::string_view text, size_t longest) {
  std::string shown;
  while (!text.empty()) {
    const size_t bytes = character_bytes(text);
    const std::string_view character = text.substr(0, std::max(bytes, size_t{1}));
    if (shown.size() + character.size() > longest) return shown + "...";
    const bool clean = bytes > 0 && !is_control(character);
    shown += clean ? character : "?";
    text.remove_prefix(character.size());
  }
  return shown;
}

}  // namespace lockstep
