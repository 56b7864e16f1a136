#include "lockstep/base/number_range.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "lockstep/base/plain_text.h"

namespace lockstep {
namespace {

/// A word behind a number, in lower case, and the factor to the unit of the range.
struct UnitWord {
  std::string_view word;
  double factor;
};

constexpr double kKi = 1024;

constexpr UnitWord kSizeWords[] = {{"", 1},          {"b", 1 / (kKi * kKi)},
                                   {"k", 1 / kKi},   {"kb", 1 / kKi},
                                   {"kib", 1 / kKi}, {"m", 1},
                                   {"mb", 1},        {"mib", 1},
                                   {"g", kKi},       {"gb", kKi},
                                   {"gib", kKi}};
constexpr UnitWord kSecondWords[] = {{"", 1}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}};
constexpr UnitWord kMillisecondWords[] = {{"", 1}, {"us", 1e-3}, {"ms", 1}, {"s", 1e3}};
constexpr UnitWord kShareWords[] = {{"", 1}, {"%", 0.01}};
constexpr UnitWord kNoWords[] = {{"", 1}};

std::span<const UnitWord> words_of(Unit unit) {
  switch (unit) {
    case Unit::kMebibytes:
      return kSizeWords;
    case Unit::kSeconds:
      return kSecondWords;
    case Unit::kMilliseconds:
      return kMillisecondWords;
    case Unit::kShare:
      return kShareWords;
    case Unit::kNone:
      break;
  }
  return kNoWords;
}

bool contains(const NumberRange& range, double value) {
  return std::isfinite(value) && (range.above ? value > range.least : value >= range.least) &&
         (range.below ? value < range.most : value <= range.most);
}

/// Without decimals for a whole number, without an exponent for a usual one.
std::string bound_text(double value) {
  constexpr double kLongest = 1e15;
  if (value >= 0x1p63) return std::to_string(std::numeric_limits<int64_t>::max());
  return std::abs(value) < kLongest ? fmt::format("{}", value) : fmt::format("{:g}", value);
}

std::string bounds_text(const NumberRange& range) {
  const std::string least = bound_text(range.least);
  if (std::isinf(range.most)) return range.above ? "above " + least : fmt::format("of {} or more", least);
  return fmt::format("{} {} {} {}", range.above ? "above" : "from", least,
                     range.below   ? "and below"
                     : range.above ? "and up to"
                                   : "to",
                     bound_text(range.most));
}

}  // namespace

std::optional<double> parse_number(std::string_view text, const NumberRange& range) {
  text = trimmed(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc()) return std::nullopt;
  std::string word(trimmed({rest, static_cast<size_t>(end - rest)}));
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto words = words_of(range.unit);
  const auto unit = std::ranges::find(words, word, &UnitWord::word);
  if (unit == words.end()) return std::nullopt;
  // 2 could be meant as 2 %.
  if (range.unit == Unit::kShare && word.empty() && value >= 1) return std::nullopt;
  // By the exact reciprocal, so that 2% is the same number as 0.02.
  value = unit->factor < 1 ? value / std::round(1 / unit->factor) : value * unit->factor;
  return contains(range, value) ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> parse_whole(std::string_view text, const NumberRange& range) {
  text = trimmed(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) {
    return contains(range, static_cast<double>(value)) ? std::optional(value) : std::nullopt;
  }
  // Above, not every whole number is one of a double.
  constexpr double kExact = 0x1p53;
  const std::optional<double> real = parse_number(text, range);
  if (!real || *real != std::floor(*real) || std::abs(*real) > kExact) return std::nullopt;
  return static_cast<int64_t>(*real);
}

std::string describe(const NumberRange& range, bool whole) {
  const std::string bounds = bounds_text(range);
  switch (range.unit) {
    case Unit::kMebibytes:
      return fmt::format("a size {} MiB (25, 25MB or 1GB)", bounds);
    case Unit::kSeconds:
      return fmt::format("a time {} seconds (30, 30s or 5min)", bounds);
    case Unit::kMilliseconds:
      return fmt::format("a time {} milliseconds (5, 5ms or 1s)", bounds);
    case Unit::kShare:
      return fmt::format("a share {} (2% or 0.02)", bounds);
    case Unit::kNone:
      break;
  }
  return fmt::format("{} {}", whole ? "a whole number" : "a number", bounds);
}

}  // namespace lockstep
