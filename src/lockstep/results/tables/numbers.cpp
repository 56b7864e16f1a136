#include "lockstep/results/tables/numbers.h"

#include <cmath>

#include <fmt/format.h>

#include "lockstep/results/tables/document.h"

namespace lockstep::results {
namespace {

/// "10,231.5"; four digits stay together.
std::string group_thousands(std::string digits) {
  const size_t begin = digits.starts_with('-') ? 1 : 0;
  size_t end = digits.find('.');
  if (end == std::string::npos) end = digits.size();
  if (end - begin <= 4) return digits;
  for (size_t at = end - 3; at > begin; at = at > begin + 3 ? at - 3 : begin) digits.insert(at, ",");
  return digits;
}

}  // namespace

bool positive(const std::optional<double>& value) {
  return value && std::isfinite(*value) && *value > 0;
}

std::string grouped_text(double value, int decimals) {
  if (!std::isfinite(value)) return std::string(kMissing);
  // Beyond this a double has no digits for the fraction, and no reader counts the commas.
  if (std::abs(value) >= 1e15) return fmt::format("{:.3g}", value);
  return group_thousands(fmt::format("{:.{}f}", value, decimals));
}

std::string number_text(const std::optional<double>& value) {
  if (!value || !std::isfinite(*value)) return std::string(kMissing);
  const double size = std::abs(*value);
  if (size == 0) return "0";
  if (size < 1e-4) return fmt::format("{:.2e}", *value);
  if (size < 0.1) return fmt::format("{:.3g}", *value);
  // Bounds lie below 10 and 100 by half a digit, or 9.999 would become 10.00 instead of 10.0.
  return grouped_text(*value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

std::string share_text(const std::optional<double>& share) {
  if (!share || !std::isfinite(*share)) return std::string(kMissing);
  const double percent = *share * 100;
  // The space is U+00A0, which does not break.
  return grouped_text(percent, std::abs(percent) < 9.95 && percent != 0 ? 1 : 0) + "\u00A0%";
}

std::string signed_percent_text(const std::optional<double>& share, int digits) {
  return share && std::isfinite(*share) ? fmt::format("{:+.{}f} %", 100 * *share, digits) : kNoValue;
}

TimeUnit time_unit(double seconds) {
  // Not (>= 1): a time that is no number gets a unit, too.
  if (!(std::abs(seconds) < 1)) return {"s", 1};
  if (std::abs(seconds) >= 1e-3) return {"ms", 1e3};
  return {"µs", 1e6};
}

std::string time_text(const std::optional<double>& seconds) {
  if (!seconds || !std::isfinite(*seconds)) return std::string(kMissing);
  const TimeUnit unit = time_unit(*seconds);
  return fmt::format("{}\u00A0{}", number_text(*seconds * unit.per_second), unit.name);
}

}  // namespace lockstep::results
