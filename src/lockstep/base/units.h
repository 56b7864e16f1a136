#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

/// "1.5 GiB", "25.0 MiB", "812 B": binary units, one decimal from KiB on.
std::string format_bytes(int64_t bytes);

/// "1 h 02 min", "3 min 20 s", "12 s", "1.23 s", "45.6 ms", "12.3 us".
std::string format_duration(double seconds);

}  // namespace lockstep
