#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/plain_text.h"
#include "lockstep/plots/frame.h"
#include "lockstep/plots/text.h"

namespace lockstep::plots {
namespace {

std::string dash_attribute(std::string_view dash) {
  return dash.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dash);
}

/// Place and size. SVG refuses a negative size, so that it becomes 0.
std::string box_attributes(const Box& box) {
  return fmt::format(" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", coordinate(box.x), coordinate(box.y),
                     coordinate(std::max(0.0, box.width)), coordinate(std::max(0.0, box.height)));
}

std::string opacity_attribute(double opacity) {
  return opacity < 1 ? fmt::format(" fill-opacity=\"{}\"", coordinate(opacity)) : "";
}

/// "10,20 30.5,40", the form of the attribute `points`.
std::string point_list(const std::vector<Point>& points) {
  std::string text;
  for (const Point& point : points) {
    if (!text.empty()) text += ' ';
    text += coordinate(point.x) + "," + coordinate(point.y);
  }
  return text;
}

/// Ends an element. Browsers show its <title> under the pointer.
std::string closed(std::string_view element, std::string_view tooltip) {
  if (tooltip.empty()) return "/>";
  return fmt::format("><title>{}</title></{}>", escape(tooltip), element);
}

/// Path data of a marker of radius r around (0, 0), and whether it consists of strokes only. The factors make
/// all shapes look equally large.
std::pair<std::string, bool> marker_path(Marker marker, double r) {
  const auto c = [](double value) { return coordinate(value); };
  switch (marker) {
    case Marker::kSquare:
      return {fmt::format("M{0} {0}H{1}V{1}H{0}z", c(-r * 0.9), c(r * 0.9)), false};
    case Marker::kTriangle:
      return {fmt::format("M0 {}L{} {}H{}z", c(-r * 1.2), c(r * 1.1), c(r * 0.8), c(-r * 1.1)), false};
    case Marker::kTriangleDown:
      return {fmt::format("M0 {}L{} {}H{}z", c(r * 1.2), c(r * 1.1), c(-r * 0.8), c(-r * 1.1)), false};
    case Marker::kDiamond:
      return {fmt::format("M0 {}L{} 0L0 {}L{} 0z", c(-r * 1.3), c(r * 1.3), c(r * 1.3), c(-r * 1.3)), false};
    case Marker::kCross:
      return {fmt::format("M{0} {0}L{1} {1}M{0} {1}L{1} {0}", c(-r), c(r)), true};
    case Marker::kPlus:
      return {fmt::format("M0 {0}V{1}M{0} 0H{1}", c(-r * 1.2), c(r * 1.2)), true};
    default:
      return {
          fmt::format("M{0} 0a{1} {1} 0 1 0 {2} 0a{1} {1} 0 1 0 {3} 0z", c(-r), c(r), c(2 * r), c(-2 * r)),
          false};
  }
}

/// A colour by its CSS class, on a white page and in dark mode.
struct Entry {
  std::string_view name, light, dark;
};

/// In the order of Colour.
constexpr std::array<Entry, 16> kEntries{{
    {"ink", "#1b1f24", "#e8eaed"},
    {"muted", "#57606a", "#a8b1bb"},
    {"grid", "#e4e7eb", "#2b323a"},
    {"axis", "#8c959f", "#6e7883"},
    {"surface", "#ffffff", "#161a20"},
    {"shade", "#f0f2f5", "#222931"},
    {"blue", "#0072b2", "#3f9bdc"},
    {"vermillion", "#d55e00", "#ec7a34"},
    {"green", "#009e73", "#22b98d"},
    {"purple", "#cc79a7", "#d98fb8"},
    {"orange", "#e69f00", "#ebae2b"},
    {"sky", "#56b4e9", "#7cc6ef"},
    {"grey", "#a9b1ba", "#7d8792"},
    {"onblue", "#ffffff", "#0d1014"},
    {"onbright", "#0d1014", "#0d1014"},
    {"none", "none", "none"},
}};

/// The table has an entry for each Colour, "none" included.
const Entry& entry_of(Colour colour) {
  return kEntries[static_cast<size_t>(colour)];
}

/// Seven hues and seven markers in step: either one distinguishes curves.
constexpr std::array<Colour, kHueCount> kHues{Colour::kBlue,   Colour::kVermillion, Colour::kGreen,
                                              Colour::kPurple, Colour::kOrange,     Colour::kSky,
                                              Colour::kInk};
constexpr std::array kMarkers{Marker::kCircle,       Marker::kSquare, Marker::kTriangle, Marker::kDiamond,
                              Marker::kTriangleDown, Marker::kCross,  Marker::kPlus};
/// Lengths of dashes and gaps; the first is a solid line.
constexpr std::array<std::string_view, 4> kDashes{"", "7 4", "2.5 3.5", "9 3 2.5 3"};

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

void Canvas::line(Point from, Point to, Colour colour, double width, std::string_view dash) {
  marks_ += fmt::format("<path d=\"M{} {}L{} {}\" stroke-width=\"{}\"{}{}/>\n", coordinate(from.x),
                        coordinate(from.y), coordinate(to.x), coordinate(to.y), coordinate(width),
                        dash_attribute(dash), paint(Colour::kNone, colour));
}

void Canvas::polyline(const std::vector<Point>& points, const LineStyle& style) {
  if (points.size() < 2) return;
  marks_ += fmt::format("<polyline points=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"{}{}/>\n",
                        point_list(points), coordinate(style.width), dash_attribute(style.dash),
                        paint(Colour::kNone, style.colour));
}

void Canvas::polygon(const std::vector<Point>& points, Colour fill, double opacity) {
  if (points.size() < 3) return;
  marks_ += fmt::format("<polygon points=\"{}\"{}{}/>\n", point_list(points), opacity_attribute(opacity),
                        paint(fill));
}

void Canvas::rect(const Box& box, Colour fill, double opacity, double radius, std::string_view tooltip) {
  const std::string round = radius > 0 ? fmt::format(" rx=\"{}\"", coordinate(radius)) : "";
  marks_ += fmt::format("<rect{}{}{}{}{}\n", box_attributes(box), round, opacity_attribute(opacity),
                        paint(fill), closed("rect", tooltip));
}

void Canvas::hatch(const Box& box, bool rising) {
  // The pattern is defined once, in markup(), and only if some box refers to it.
  (rising ? rising_ : falling_) = true;
  marks_ += fmt::format("<rect{} fill=\"url(#{}-{})\" pointer-events=\"none\"/>\n", box_attributes(box), id_,
                        rising ? "rising" : "falling");
}

void Canvas::marker(Point at, const LineStyle& style, double size, std::string_view tooltip) {
  if (style.marker == Marker::kNone) return;
  const auto [path, strokes] = marker_path(style.marker, size);
  // A cross has no inside; a hollow marker is filled with the ground, so that its line does not show
  // through.
  const Colour fill = strokes ? Colour::kNone : style.hollow ? Colour::kSurface : style.colour;
  const Colour stroke = strokes || style.hollow ? style.colour : Colour::kSurface;
  marks_ += fmt::format("<path d=\"{}\" transform=\"translate({} {})\" stroke-width=\"{}\"{}{}\n", path,
                        coordinate(at.x), coordinate(at.y),
                        strokes        ? "2.25"
                        : style.hollow ? "1.75"
                                       : "1",
                        paint(fill, stroke), closed("path", tooltip));
}

void Canvas::text(Point at, std::string_view text, const TextLook& look) {
  if (text.empty()) return;
  // In the order of Anchor; "start" is SVG's default.
  constexpr std::string_view kAnchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
  marks_ += fmt::format("<text x=\"{}\" y=\"{}\"{}{}{}{}>", coordinate(at.x), coordinate(at.y),
                        kAnchors[static_cast<int>(look.anchor)],
                        look.size == kTextSize ? "" : fmt::format(" font-size=\"{}\"", coordinate(look.size)),
                        look.bold ? " font-weight=\"600\"" : "", paint(look.colour));
  marks_ += escape(text) + "</text>\n";
}

double Canvas::paragraph(Point at, std::string_view text, double width, const TextLook& look) {
  // The same text in bold is at most this much wider.
  const std::vector<std::string> lines = lines_of(text, look.bold ? 0.85 * width : width, look.size);
  const double height = kLineHeight * look.size / kTextSize;
  for (size_t i = 0; i < lines.size(); ++i)
    this->text({at.x, at.y + height * static_cast<double>(i)}, lines[i], look);
  return height * static_cast<double>(lines.size());
}

void Canvas::whisker(double x, double low_y, double high_y, Colour colour, bool low_goes_on,
                     bool high_goes_on) {
  constexpr double kCap = 4;
  const std::string left = coordinate(x - kCap), right = coordinate(x + kCap), middle = coordinate(x);
  // `back`: from the tip of an arrow into the plot.
  const auto end = [&](double y, bool goes_on, double back) {
    if (!goes_on) return fmt::format("M{} {}H{}", left, coordinate(y), right);
    const std::string base = coordinate(y + back);
    return fmt::format("M{} {}L{} {}L{} {}", left, base, middle, coordinate(y), right, base);
  };
  marks_ += fmt::format("<path d=\"M{} {}V{}{}{}\" stroke-width=\"1.5\"{}/>\n", middle, coordinate(low_y),
                        coordinate(high_y), end(low_y, low_goes_on, -kCap), end(high_y, high_goes_on, kCap),
                        paint(Colour::kNone, colour));
}

std::string Canvas::markup() const {
  std::string definitions;
  const auto stripes = [&](std::string_view name, int angle) {
    definitions += fmt::format(
        "<pattern id=\"{}-{}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate({})\"><path d=\"M0 3H6\" stroke-width=\"1.6\" "
        "stroke-opacity=\"0.55\"{}/></pattern>\n",
        id_, name, angle, paint(Colour::kNone, Colour::kSurface));
  };
  if (rising_) stripes("rising", -45);
  if (falling_) stripes("falling", 45);
  return definitions.empty() ? marks_ : fmt::format("<defs>\n{}</defs>\n{}", definitions, marks_);
}

std::string paint(Colour fill, Colour stroke) {
  std::string classes;
  std::string text;
  if (fill == Colour::kNone) {
    text += " fill=\"none\"";
  } else {
    text += fmt::format(" fill=\"{}\"", entry_of(fill).light);
    classes = fmt::format("f-{}", entry_of(fill).name);
  }
  if (stroke != Colour::kNone) {
    text += fmt::format(" stroke=\"{}\"", entry_of(stroke).light);
    classes += fmt::format("{}s-{}", classes.empty() ? "" : " ", entry_of(stroke).name);
  }
  if (!classes.empty()) text += fmt::format(" class=\"{}\"", classes);
  return text;
}

std::string dark_mode_css() {
  std::string rules;
  for (const Entry& entry : kEntries) {
    // The attributes hold the light colour already.
    if (entry.light == entry.dark) continue;
    rules += fmt::format(".f-{0}{{fill:{1}}}.s-{0}{{stroke:{1}}}", entry.name, entry.dark);
  }
  return fmt::format("@media screen and (prefers-color-scheme:dark){{{}}}", rules);
}

LineStyle line_style(size_t hue, size_t marker, size_t dash) {
  return {.colour = kHues[hue % kHues.size()],
          .marker = kMarkers[marker % kMarkers.size()],
          .dash = std::string(kDashes[dash % kDashes.size()])};
}

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
