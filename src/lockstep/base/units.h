#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

/// "1,234".
std::string count_text(int64_t count);

/// "8 ranks", "1 rank", "10,000 steps".
std::string counted(int64_t count, std::string_view noun);

/// "1.5 GiB", "25.0 MiB", "812 B": binary units, one decimal from KiB on.
std::string format_bytes(int64_t bytes);

/// A number as people write it, with `digits` significant digits but all of its whole ones, and never an
/// exponent: "1218", "12.2", "0.122", "0"; what is smaller than `least`, a power of ten, is "<0.001". "-" if
/// it is not finite.
std::string format_number(double value, int digits, double least = 0.001);

/// "1 h 02 min", "3 min 20 s", "12 s", "1.23 s", "45.6 ms", "12.3 us".
std::string format_duration(double seconds);

}  // namespace lockstep
