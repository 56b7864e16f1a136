#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::plots {

/// Every colour of the drawings, by what it is for. The hues are those of Okabe and Ito (2008), which people
/// with the common kinds of colour blindness tell apart; markers, dashes and hatching say the same without
/// colour.
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

/// On a white page, as "#0072b2"; "none" for kNone.
std::string_view light_value(Colour colour);

/// ` fill="#0072b2" class="f-blue"` and the like: presentation attributes hold the light colours, so that
/// every SVG reader draws them, and a browser in dark mode overrides them through the class.
std::string paint(Colour fill, Colour stroke = Colour::kNone);

/// The style rules that do so; the same for a page and for one drawing.
std::string dark_mode_css();

enum class Marker { kCircle, kSquare, kTriangle, kDiamond, kTriangleDown, kCross, kPlus, kNone };

/// How a curve looks.
struct LineStyle {
  Colour colour = Colour::kBlue;
  Marker marker = Marker::kCircle;
  /// stroke-dasharray; empty: solid.
  std::string dash;
  bool hollow = false;
  double width = 2.25;
};

/// The index-th curve's own look: hue and marker differ for the first seven, then dashes too.
LineStyle line_style(size_t index);

/// The index-th control (`independent`): recedes behind the others.
LineStyle control_style(size_t index);

/// The look of the index-th published curve: hollow markers, dotted lines.
LineStyle published_style(size_t index);

}  // namespace lockstep::plots
