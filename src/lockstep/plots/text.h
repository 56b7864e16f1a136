#pragma once

#include <string>
#include <string_view>

namespace lockstep::plots {

/// `text` for an XML or HTML text node or a double-quoted attribute: the five special characters become
/// entities, control characters (which XML forbids) and invalid UTF-8 become U+FFFD, line ends become spaces.
std::string escape(std::string_view text);

/// The same for text whose line ends matter.
std::string escape_lines(std::string_view text);

/// Valid UTF-8 of at most `most` code points; what is cut off is replaced by an ellipsis.
std::string clip(std::string_view text, size_t most);

/// The next code point of `text` at `at`, which moves behind it; U+FFFD for what is no valid UTF-8.
char32_t next_code_point(std::string_view text, size_t& at);

/// Appends a code point as UTF-8.
void append_code_point(std::string& text, char32_t point);

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
