#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/plots/palette.h"
#include "lockstep/plots/text.h"

namespace lockstep::plots {

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
