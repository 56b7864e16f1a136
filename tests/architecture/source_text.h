#pragma once

#include <string>
#include <string_view>

namespace lockstep::architecture {

/// C++ with the contents of comments, string and character literals blanked, line breaks kept: what is left
/// is code.
std::string code_only(std::string_view source);

}  // namespace lockstep::architecture
