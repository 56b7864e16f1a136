#pragma once

#include <string>
#include <string_view>

namespace lockstep::plots {

/// Font sizes of every drawing, in its own pixels.
inline constexpr double kTextSize = 13;
inline constexpr double kSmallTextSize = 11.5;
inline constexpr double kHeadingSize = 16;
inline constexpr double kLineHeight = 19;

/// How wide `text` is in the widest of the usual sans-serif fonts. The reader's own font is not known here,
/// so this is an estimate from above: what is laid out by it neither overlaps nor is cut.
double text_width(std::string_view text, double size = kTextSize);

/// `text`, cut in its middle with an ellipsis where it is wider than `width`: names of files differ at their
/// ends.
std::string fit_text(std::string_view text, double width, double size = kTextSize);

}  // namespace lockstep::plots
