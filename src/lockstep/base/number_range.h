#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// The unit of a number on a command line. It, or another one of its kind, may stand behind the number: 25MB,
/// 30s, 2%. KB, MB and GB mean KiB, MiB and GiB.
enum class Unit { kNone, kMebibytes, kSeconds, kMilliseconds, kShare };

/// The finite numbers that a flag takes.
struct NumberRange {
  double least = 0;
  double most = std::numeric_limits<double>::infinity();
  /// Whether `least` and `most` themselves are excluded.
  bool above = false;
  bool below = false;
  Unit unit = Unit::kNone;
};

/// The number in `text`, in the range's unit; nothing for any other text and for a number outside the range.
/// A share without a percent sign is below 1.
std::optional<double> parse_number(std::string_view text, const NumberRange& range);

/// The same for whole numbers that an int64_t holds, 1e3 among them.
std::optional<int64_t> parse_whole(std::string_view text, const NumberRange& range);

/// The numbers in words: "a whole number from 1 to 4096", "a time above 0 seconds (30, 30s or 5min)".
std::string describe(const NumberRange& range, bool whole);

}  // namespace lockstep
