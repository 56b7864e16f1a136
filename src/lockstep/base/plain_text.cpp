#include "lockstep/base/plain_text.h"

#include <algorithm>

namespace lockstep {
namespace {

/// Number of continuation bytes after this first byte; -1 for a byte that cannot be a first one.
int continuation_bytes(unsigned char first) {
  if (first < 0x80) return 0;
  if (first >= 0xC2 && first <= 0xDF) return 1;
  if (first >= 0xE0 && first <= 0xEF) return 2;
  if (first >= 0xF0 && first <= 0xF4) return 3;
  return -1;
}

/// Rejects overlong encodings and surrogates.
bool is_scalar_value(char32_t point, int more) {
  constexpr char32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
  return point >= kLeast[more] && point <= 0x10FFFF && !(point >= 0xD800 && point <= 0xDFFF);
}

/// C0/C1 controls and bidi overrides.
bool is_control(char32_t point) {
  return point < 0x20 || (point >= 0x7F && point < 0xA0) || (point >= 0x202A && point <= 0x202E) ||
         (point >= 0x2066 && point <= 0x2069);
}

/// Line ends of all kinds, and tabs.
bool is_blank(char32_t point) {
  return point == U'\n' || point == U'\r' || point == U'\t' || point == 0x2028 || point == 0x2029;
}

}  // namespace

char32_t next_code_point(std::string_view text, size_t& at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const int more = continuation_bytes(first);
  if (more <= 0) {
    ++at;
    return more == 0 ? first : kReplacement;
  }
  char32_t point = first & (0x3F >> more);
  for (int i = 1; i <= more; ++i) {
    if (at + i >= text.size() || (static_cast<unsigned char>(text[at + i]) & 0xC0) != 0x80) {
      at += i;
      return kReplacement;
    }
    point = (point << 6) | (static_cast<unsigned char>(text[at + i]) & 0x3F);
  }
  at += more + 1;
  return is_scalar_value(point, more) ? point : kReplacement;
}

void append_code_point(std::string& text, char32_t point) {
  // 0xxxxxxx, or a first byte with the number of bytes, then six bits in each:
  // 110xxxxx 10xxxxxx / 1110xxxx 10xxxxxx 10xxxxxx / 11110xxx 10xxxxxx 10xxxxxx 10xxxxxx
  constexpr char32_t kFirst[] = {0, 0xC0, 0xE0, 0xF0};
  const int more = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  text += static_cast<char>(kFirst[more] | (point >> (6 * more)));
  for (int i = more; i-- > 0;) text += static_cast<char>(0x80 | ((point >> (6 * i)) & 0x3F));
}

std::string plain_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const char32_t point = next_code_point(text, at);
    if (is_blank(point)) {
      out += ' ';
    } else {
      append_code_point(out, is_control(point) ? kReplacement : point);
    }
  }
  return out;
}

std::string command_text(const std::vector<std::string>& words) {
  constexpr std::string_view kSafe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    if (!word.empty() && word.find_first_not_of(kSafe) == std::string::npos) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : plain_text(word)) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::vector<std::string> split_at_commas(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    parts.emplace_back(trimmed(text.substr(0, comma)));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

std::string printable(std::string_view text, size_t longest) {
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t point = next_code_point(text, at);
    const std::string_view character = text.substr(begin, at - begin);
    // Text may hold kReplacement itself.
    const bool valid = point != kReplacement || character == "\uFFFD";
    const bool keeps = point == U'\n' || point == U'\t' || (valid && !is_control(point));
    if (shown.size() + character.size() > longest) return shown + "...";
    shown += keeps ? std::string(character) : std::string(valid ? 1 : character.size(), '?');
  }
  return shown;
}

}  // namespace lockstep
