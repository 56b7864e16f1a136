#include "lockstep/plots/canvas.h"

#include <algorithm>

#include <fmt/format.h>

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

}  // namespace lockstep::plots
