#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::results {

/// Text for a number that is missing or not finite.
inline constexpr std::string_view kMissing = "–";

/// Finite and above zero; a damaged file may hold anything.
bool positive(const std::optional<double>& value);

/// Three or four significant digits: "41.5", "412", "4231", "10,231", "0.0123".
std::string number_text(const std::optional<double>& value);

/// Fixed number of decimals, with thousands separators.
std::string grouped_text(double value, int decimals);

/// "71 %", or with one decimal below 10, "3.4 %"; the space does not break.
std::string share_text(const std::optional<double>& share);

/// "+1.2 %", or "-".
std::string signed_percent_text(const std::optional<double>& share, int digits = 1);

/// Unit in which times around `seconds` read well.
struct TimeUnit {
  std::string_view name;
  double per_second;
};
TimeUnit time_unit(double seconds);

/// "103 ms", "1.20 s".
std::string time_text(const std::optional<double>& seconds);

}  // namespace lockstep::results
