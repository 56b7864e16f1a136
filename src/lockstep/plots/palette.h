#pragma once

#include <cstddef>
#include <string>
#include <string_view>

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

}  // namespace lockstep::plots
