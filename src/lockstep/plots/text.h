#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/results/tables/document.h"

namespace lockstep::plots {

using results::grouped_text;
using results::kMissing;
using results::number_text;
using results::positive;
using results::share_text;
using results::time_text;
using results::time_unit;
using results::TimeUnit;

/// `text` for an XML or HTML text node or a double-quoted attribute: the five special characters become
/// entities, control characters (which XML forbids) and invalid UTF-8 become U+FFFD, line ends become spaces.
std::string escape(std::string_view text);

/// The same line by line; line ends stay.
std::string escape_lines(std::string_view text);

/// Valid UTF-8 of at most `most` code points; an ellipsis replaces the rest.
std::string clip(std::string_view text, size_t most);

/// A coordinate in a drawing: at most two decimals, no trailing zeros, never "-0" or "nan".
std::string coordinate(double value);

/// Font sizes of every drawing, in its own pixels.
inline constexpr double kTextSize = 13;
inline constexpr double kSmallTextSize = 12;
inline constexpr double kHeadingSize = 16;
inline constexpr double kLineHeight = 19;

/// Width of `text` in the widest of the usual sans-serif fonts. The reader's font is unknown, so this is an
/// upper estimate: text laid out by it neither overlaps nor is cut.
double text_width(std::string_view text, double size = kTextSize);

/// `text` broken between words into lines of at most `width`, four at most: an ellipsis replaces the rest. A
/// word that is wider is broken, but not within a number.
std::vector<std::string> lines_of(std::string_view text, double width, double size = kTextSize);

}  // namespace lockstep::plots
