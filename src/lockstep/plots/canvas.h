#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/plots/text.h"

namespace lockstep::plots {

/// Every colour of the drawings, by purpose. The hues are those of Okabe and Ito (2008), which remain
/// distinct under the common kinds of colour blindness; markers, dashes and hatching repeat the distinction
/// without colour.
enum class Colour {
  kInk,
  kMuted,
  kGrid,
  kAxis,
  kSurface,
  kShade,
  kBlue,
  kVermillion,
  kGreen,
  kPurple,
  kOrange,
  kSky,
  kGrey,
  kOnBlue,
  kOnBright,
  kNone,
};

/// ` fill="#0072b2" class="f-blue"` and the like: presentation attributes hold the light colours, so that
/// every SVG reader draws them, and a browser in dark mode overrides them through the class.
std::string paint(Colour fill, Colour stroke = Colour::kNone);

/// The style rules for dark mode, for a page as for a single drawing.
std::string dark_mode_css();

enum class Marker { kCircle, kSquare, kTriangle, kDiamond, kTriangleDown, kCross, kPlus, kNone };

/// Colour, marker and dash of a curve.
struct LineStyle {
  Colour colour = Colour::kBlue;
  Marker marker = Marker::kCircle;
  /// stroke-dasharray; empty: solid.
  std::string dash;
  bool hollow = false;
  double width = 2.25;
};

inline constexpr size_t kHueCount = 7;

/// A style by its place among the hues, markers and dashes (0: solid), each of which is used in turn.
LineStyle line_style(size_t hue, size_t marker, size_t dash);

struct Point {
  double x = 0;
  double y = 0;
};

struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
};

enum class Anchor { kStart, kMiddle, kEnd };

struct TextLook {
  Colour colour = Colour::kInk;
  Anchor anchor = Anchor::kStart;
  double size = kTextSize;
  bool bold = false;
};

/// The marks of one drawing as SVG elements. Later marks lie above earlier ones. All foreign text is escaped
/// here.
class Canvas {
 public:
  /// `id` is the prefix of every id in the drawing, so that one page can hold several drawings.
  explicit Canvas(std::string id) : id_(std::move(id)) {}

  void line(Point from, Point to, Colour colour, double width = 1, std::string_view dash = "");
  /// A line through the points; nothing for fewer than two.
  void polyline(const std::vector<Point>& points, const LineStyle& style);
  void polygon(const std::vector<Point>& points, Colour fill, double opacity = 1);
  void rect(const Box& box, Colour fill, double opacity = 1, double radius = 0,
            std::string_view tooltip = "");
  /// Stripes over a box in the colour of the surface, like slashes (`rising`) or like backslashes.
  void hatch(const Box& box, bool rising);
  void marker(Point at, const LineStyle& style, double size = 4.5, std::string_view tooltip = "");
  /// `y` is the base line.
  void text(Point at, std::string_view text, const TextLook& look = {});
  /// Text in lines of at most `width` (lines_of()); `at` is of the first. Returns their height.
  double paragraph(Point at, std::string_view text, double width, const TextLook& look = {});
  /// A range from `low_y` up to `high_y` (which is the smaller one) with a cap on both ends, or an arrow on
  /// an end that reaches further than is drawn.
  void whisker(double x, double low_y, double high_y, Colour colour, bool low_goes_on = false,
               bool high_goes_on = false);

  /// The marks, preceded by the definitions that they refer to.
  std::string markup() const;

 private:
  std::string id_;
  std::string marks_;
  bool rising_ = false;
  bool falling_ = false;
};

}  // namespace lockstep::plots
