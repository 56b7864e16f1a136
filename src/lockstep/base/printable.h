#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// `text` from another process, for a terminal: control characters (escape sequences among them) become '?',
/// and so do bytes that are no UTF-8. Line ends and tabs stay. Beyond `longest` bytes it is cut, and ends
/// with "...".
std::string printable(std::string_view text, size_t longest = 4096);

}  // namespace lockstep
