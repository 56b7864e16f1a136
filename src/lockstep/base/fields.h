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
// or, where all keys are the members' names and have one rule: LOCKSTEP_DESCRIBE(kOptional, name, empty_s). A
// describe() whose second parameter is `self` names several such members by LOCKSTEP_FIELDS(kOptional, ...).
//
// `Self` is const for a visitor that writes. Visitors (base/json_codec.h has the ones for JSON) also have
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
  /// A missing number is NaN, which is written as null.
  bool missing_is_nan = false;
  /// Range of a whole number; an empty `least` means 0 for an int, no bound for an int64_t.
  std::optional<int64_t> least = std::nullopt;
  std::optional<int64_t> most = std::nullopt;
  /// A text of several lines: line ends and tabs stay.
  bool lines = false;
};

inline constexpr FieldRule kOptional{};
inline constexpr FieldRule kRequired{.required = true};
inline constexpr FieldRule kNullable{.nullable = true};
inline constexpr FieldRule kNotNegative{.least = 0};
inline constexpr FieldRule kNullableCount{.nullable = true, .least = 0};
inline constexpr FieldRule kLines{.lines = true};
/// Must be there, and at least 1.
inline constexpr FieldRule kAtLeastOne{.required = true, .least = 1};

#define LOCKSTEP_DESCRIBE(rule, ...)                 \
  template <typename Fields, typename Self>          \
  static void describe(Fields& fields, Self& self) { \
    LOCKSTEP_FIELDS(rule, __VA_ARGS__)               \
  }
#define LOCKSTEP_FIELDS(rule, ...) LOCKSTEP_RESCAN(LOCKSTEP_FIELD(rule, __VA_ARGS__))
#define LOCKSTEP_FIELD(rule, name, ...) \
  fields(#name, self.name, rule);       \
  __VA_OPT__(LOCKSTEP_NEXT_FIELD LOCKSTEP_NO_ARGUMENTS(rule, __VA_ARGS__))
// A macro does not expand within itself; each rescan expands what the last one left, here up to 27 members.
#define LOCKSTEP_NEXT_FIELD() LOCKSTEP_FIELD
#define LOCKSTEP_NO_ARGUMENTS ()
#define LOCKSTEP_RESCAN(...) LOCKSTEP_RESCAN_9(LOCKSTEP_RESCAN_9(LOCKSTEP_RESCAN_9(__VA_ARGS__)))
#define LOCKSTEP_RESCAN_9(...) LOCKSTEP_RESCAN_3(LOCKSTEP_RESCAN_3(LOCKSTEP_RESCAN_3(__VA_ARGS__)))
#define LOCKSTEP_RESCAN_3(...) LOCKSTEP_RESCAN_1(LOCKSTEP_RESCAN_1(LOCKSTEP_RESCAN_1(__VA_ARGS__)))
#define LOCKSTEP_RESCAN_1(...) __VA_ARGS__

}  // namespace lockstep
