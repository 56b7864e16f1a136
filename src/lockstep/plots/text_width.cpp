#include "lockstep/plots/text_width.h"

#include <string_view>
#include <vector>

#include "lockstep/plots/markup.h"

namespace lockstep::plots {
namespace {

/// Advance of one character as a share of the font size. Helvetica's metrics, rounded up by class.
double advance(char32_t point) {
  constexpr std::u32string_view kNarrow = U"iljI.,:;'|!ftr()[]{}/ \\-\"`";
  constexpr std::u32string_view kWide = U"mwMW@%";
  if (point >= 0x1100) return point == U'…' || point < 0x2E80 ? 0.8 : 1.05;
  if (kWide.find(point) != std::u32string_view::npos) return 0.92;
  if (kNarrow.find(point) != std::u32string_view::npos) return 0.37;
  if (point >= U'A' && point <= U'Z') return 0.71;
  return 0.58;
}

/// Other fonts than Helvetica are up to so much wider (DejaVu Sans is).
constexpr double kOtherFonts = 1.06;

}  // namespace

double text_width(std::string_view text, double size) {
  double width = 0;
  for (size_t at = 0; at < text.size();) width += advance(next_code_point(text, at));
  return width * size * kOtherFonts;
}

std::string fit_text(std::string_view text, double width, double size) {
  if (text_width(text, size) <= width) return std::string(text);
  std::vector<char32_t> points;
  for (size_t at = 0; at < text.size();) points.push_back(next_code_point(text, at));
  for (size_t keep = points.size() - 1; keep > 1; --keep) {
    const size_t head = (keep + 1) / 2;
    std::string cut;
    for (size_t i = 0; i < head; ++i) append_code_point(cut, points[i]);
    cut += "…";
    for (size_t i = points.size() - (keep - head); i < points.size(); ++i) append_code_point(cut, points[i]);
    if (text_width(cut, size) <= width) return cut;
    // A very long text would take quadratic time one character at a time.
    if (keep > 200) keep = 200;
  }
  return "…";
}

}  // namespace lockstep::plots
