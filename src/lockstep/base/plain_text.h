#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

/// Stands for what is no character.
constexpr char32_t kReplacement = U'\uFFFD';

/// The code point of UTF-8 `text` at `at`; moves `at` behind it. kReplacement for invalid UTF-8.
char32_t next_code_point(std::string_view text, size_t& at);

/// Appends a code point as UTF-8.
void append_code_point(std::string& text, char32_t point);

/// Text of somebody else as one line that does nothing to a terminal or a page: line ends and tabs become
/// spaces; characters that do something (control characters, and those that turn the direction of writing)
/// and invalid UTF-8 become kReplacement.
std::string plain_text(std::string_view text);

/// Without spaces, tabs and line ends at both ends.
std::string_view trimmed(std::string_view text);

/// Text from another process, for a terminal, whose line ends and tabs stay: characters that do something
/// become '?', and so does each byte that is no UTF-8. Beyond `longest` bytes it is cut, and ends with "...".
std::string printable(std::string_view text, size_t longest = 4096);

}  // namespace lockstep
