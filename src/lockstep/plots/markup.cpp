#include "lockstep/plots/markup.h"

namespace lockstep::plots {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

/// How many continuation bytes follow this first byte; -1: it cannot be a first byte.
int continuation_bytes(unsigned char first) {
  if (first < 0x80) return 0;
  if (first >= 0xC2 && first <= 0xDF) return 1;
  if (first >= 0xE0 && first <= 0xEF) return 2;
  if (first >= 0xF0 && first <= 0xF4) return 3;
  return -1;
}

bool is_scalar_value(char32_t point, int more) {
  constexpr char32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
  return point >= kLeast[more] && point <= 0x10FFFF && !(point >= 0xD800 && point <= 0xDFFF);
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
  if (point < 0x80) {
    text += static_cast<char>(point);
  } else if (point < 0x800) {
    text += static_cast<char>(0xC0 | (point >> 6));
    text += static_cast<char>(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    text += static_cast<char>(0xE0 | (point >> 12));
    text += static_cast<char>(0x80 | ((point >> 6) & 0x3F));
    text += static_cast<char>(0x80 | (point & 0x3F));
  } else {
    text += static_cast<char>(0xF0 | (point >> 18));
    text += static_cast<char>(0x80 | ((point >> 12) & 0x3F));
    text += static_cast<char>(0x80 | ((point >> 6) & 0x3F));
    text += static_cast<char>(0x80 | (point & 0x3F));
  }
}

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (size_t at = 0; at < text.size();) {
    const char32_t point = next_code_point(text, at);
    switch (point) {
      case U'&':
        out += "&amp;";
        break;
      case U'<':
        out += "&lt;";
        break;
      case U'>':
        out += "&gt;";
        break;
      case U'"':
        out += "&quot;";
        break;
      case U'\'':
        out += "&#39;";
        break;
      case U'\n':
      case U'\r':
      case U'\t':
        out += ' ';
        break;
      default: {
        const bool forbidden =
            point < 0x20 || (point >= 0x7F && point < 0xA0) || point == 0xFFFE || point == 0xFFFF;
        append_code_point(out, forbidden ? kReplacement : point);
      }
    }
  }
  return out;
}

std::string clip(std::string_view text, size_t most) {
  std::string out;
  size_t points = 0;
  for (size_t at = 0; at < text.size(); ++points) {
    const char32_t point = next_code_point(text, at);
    if (points + 1 == most && at < text.size()) return out + "…";
    append_code_point(out, point);
  }
  return out;
}

}  // namespace lockstep::plots
