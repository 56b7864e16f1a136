#pragma once

#include <cstdint>
#include <optional>

namespace lockstep {

// A struct that goes into files or from rank to rank describes itself once, beside its members:
//
//   template <typename Fields, typename Self>
//   static void describe(Fields& fields, Self& queue) {
//     fields("name", queue.name, kRequired);
//     fields("empty_s", queue.empty_s);
//   }
//
// `Self` is const for a visitor that writes. Visitors (base/json_codec.h has those of JSON) also
// have
//
//   fields.derived("efficiency", value)     written, never read
//   fields.group("loss", [&](auto& loss) {  an object of its own in the file
//     loss("first", run.loss_first);
//   });

/// How a member is read and written. A member that is missing keeps the value that it has.
struct FieldRule {
  /// A file without it is refused.
  bool required = false;
  /// 0 and "" are written as null.
  bool nullable = false;
  /// A number that is missing is none (NaN), as it was when it was written.
  bool missing_is_nan = false;
  /// Range of a whole number; an empty `least` means 0 for an int, no bound for an int64_t.
  std::optional<int64_t> least = std::nullopt;
  std::optional<int64_t> most = std::nullopt;
  /// A text of several lines: line ends and tabs stay.
  bool lines = false;
};

inline constexpr FieldRule kRequired{.required = true};
inline constexpr FieldRule kNullable{.nullable = true};
inline constexpr FieldRule kNotNegative{.least = 0};
inline constexpr FieldRule kNullableCount{.nullable = true, .least = 0};
inline constexpr FieldRule kLines{.lines = true};
/// Must be there, and at least 1.
inline constexpr FieldRule kAtLeastOne{.required = true, .least = 1};

}  // namespace lockstep
