#include "lockstep/base/units.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace lockstep {

std::string count_text(int64_t count) {
  std::string digits = std::to_string(count);
  const size_t begin = count < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > begin + 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string counted(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count_text(count), noun, count == 1 ? "" : "s");
}

std::string format_bytes(int64_t bytes) {
  if (std::abs(bytes) < 1024) return fmt::format("{} B", bytes);
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // 1023.95 would be printed as 1024.0.
  while (std::abs(value) >= 1023.95 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string format_number(double value, int digits, double least) {
  if (!std::isfinite(value)) return "-";
  if (value == 0) return "0";
  if (std::abs(value) < least) {
    const int decimals = static_cast<int>(std::lround(-std::log10(least)));
    return fmt::format("{}{:.{}f}", value < 0 ? ">-" : "<", least, decimals);
  }
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(value))));
  std::string text = fmt::format("{:.{}f}", value, std::max(0, digits - 1 - exponent));
  if (text.find('.') == std::string::npos) return text;
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string format_duration(double seconds) {
  if (seconds == 0) return "0 s";
  // Bounds lie half a digit lower, so that no "1000.0 us" is printed.
  if (seconds < 0.99995e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 0.99995) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 9.995) return fmt::format("{:.2f} s", seconds);
  // Rounded before it is divided, so that 59.7 s become 1 min 00 s, not 60 s.
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace lockstep
