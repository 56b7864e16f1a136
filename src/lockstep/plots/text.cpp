#include "lockstep/plots/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/plain_text.h"

namespace lockstep::plots {
namespace {

constexpr std::array<std::pair<char32_t, std::string_view>, 8> kReplaced{{{U'&', "&amp;"},
                                                                          {U'<', "&lt;"},
                                                                          {U'>', "&gt;"},
                                                                          {U'"', "&quot;"},
                                                                          {U'\'', "&#39;"},
                                                                          {U'\n', " "},
                                                                          {U'\r', " "},
                                                                          {U'\t', " "}}};

/// Advance of one character as a share of the font size: Helvetica's metrics, rounded up by class.
double advance(char32_t point) {
  constexpr std::u32string_view kNarrow = U"iljI.,:;'|!ftr()[]{}/ \\-\"`";
  constexpr std::u32string_view kWide = U"mwMW@%";
  if (point >= 0x1100) return point == U'…' || point < 0x2E80 ? 0.8 : 1.05;
  if (kWide.find(point) != std::u32string_view::npos) return 0.92;
  if (kNarrow.find(point) != std::u32string_view::npos) return 0.37;
  if (point >= U'A' && point <= U'Z') return 0.71;
  return 0.58;
}

/// Factor by which the widest usual font, DejaVu Sans, exceeds Helvetica.
constexpr double kOtherFonts = 1.06;

/// Bytes of the longest beginning of `word` that is at most `width` wide and ends within no number.
size_t fitting(std::string_view word, double width, double size) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  double used = 0;
  size_t end = 0;
  for (size_t at = 0; at < word.size();) {
    used += advance(next_code_point(word, at)) * size * kOtherFonts;
    if (used > width && end > 0) break;
    if (at == word.size() || !is_digit(word[at - 1]) || !is_digit(word[at])) end = at;
  }
  return end;
}

}  // namespace

std::string coordinate(double value) {
  if (!std::isfinite(value)) return "0";
  std::string text = fmt::format("{:.2f}", value);
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (size_t at = 0; at < text.size();) {
    const char32_t point = next_code_point(text, at);
    const auto known = std::ranges::find(kReplaced, point, &std::pair<char32_t, std::string_view>::first);
    const bool forbidden =
        point < 0x20 || (point >= 0x7F && point < 0xA0) || point == 0xFFFE || point == 0xFFFF;
    if (known != kReplaced.end()) {
      out += known->second;
    } else {
      append_code_point(out, forbidden ? kReplacement : point);
    }
  }
  return out;
}

std::string escape_lines(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    out += escape(text.substr(at, end - at)) + '\n';
    at = end + 1;
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

double text_width(std::string_view text, double size) {
  double width = 0;
  for (size_t at = 0; at < text.size();) width += advance(next_code_point(text, at));
  return width * size * kOtherFonts;
}

std::vector<std::string> lines_of(std::string_view text, double width, double size) {
  constexpr size_t kMostLines = 4;
  std::vector<std::string> lines{""};
  for (size_t at = 0; at < text.size() && lines.size() <= kMostLines;) {
    const size_t end = std::min(text.find(' ', at), text.size());
    std::string_view word = text.substr(at, end - at);
    at = end + 1;
    std::string longer = fmt::format("{}{}{}", lines.back(), lines.back().empty() ? "" : " ", word);
    if (text_width(longer, size) <= width) {
      lines.back() = std::move(longer);
      continue;
    }
    if (!lines.back().empty()) lines.emplace_back();
    for (; lines.size() <= kMostLines; lines.emplace_back()) {
      const size_t fits = fitting(word, width, size);
      lines.back() = word.substr(0, fits);
      word.remove_prefix(fits);
      if (word.empty()) break;
    }
  }
  if (lines.size() <= kMostLines) return lines;
  lines.resize(kMostLines);
  lines.back() += "…";
  return lines;
}

}  // namespace lockstep::plots
