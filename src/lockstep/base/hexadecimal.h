#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// Two digits for every byte.
std::string to_hexadecimal(std::string_view bytes);

/// Throws Error unless `digits` is an even number of hexadecimal digits.
std::string from_hexadecimal(std::string_view digits);

}  // namespace lockstep
