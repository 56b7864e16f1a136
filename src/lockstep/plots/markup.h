#pragma once

#include <string>
#include <string_view>

namespace lockstep::plots {

/// `text` for an XML or HTML text node or a double-quoted attribute: the five special characters become
/// entities, control characters (which XML forbids) and invalid UTF-8 become U+FFFD, line ends become spaces.
std::string escape(std::string_view text);

/// Valid UTF-8 of at most `most` code points; what is cut off is replaced by an ellipsis.
std::string clip(std::string_view text, size_t most);

/// The next code point of `text` at `at`, which moves behind it; U+FFFD for what is no valid UTF-8.
char32_t next_code_point(std::string_view text, size_t& at);

/// Appends a code point as UTF-8.
void append_code_point(std::string& text, char32_t point);

}  // namespace lockstep::plots
