#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Replaces bytes that are no character.
constexpr char32_t kReplacement = U'\uFFFD';

/// The code point of UTF-8 `text` at `at`; moves `at` behind it. kReplacement for invalid UTF-8.
char32_t next_code_point(std::string_view text, size_t& at);

/// Appends a code point as UTF-8.
void append_code_point(std::string& text, char32_t point);

/// Text of any origin as one line that is harmless in a terminal or a page: line ends and tabs become spaces;
/// controls, bidi overrides and invalid UTF-8 become kReplacement.
std::string plain_text(std::string_view text);

/// Words of a command as a shell takes them, quoted where they have to be, as one plain_text().
std::string command_text(const std::vector<std::string>& words);

/// Without spaces, tabs and line ends at both ends.
std::string_view trimmed(std::string_view text);

/// Parts between commas, each trimmed(); a comma at the end has nothing behind it.
std::vector<std::string> split_at_commas(std::string_view text);

/// Text of another process for a terminal, with its line ends and tabs: other controls, bidi overrides and
/// each byte of invalid UTF-8 become '?'. Cut after `longest` bytes, with "..." at the end.
std::string printable(std::string_view text, size_t longest = 4096);

}  // namespace lockstep
