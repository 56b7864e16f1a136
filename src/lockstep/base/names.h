#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The entries of `known` that a user who typed `name` may have meant, nearest first, at most three: what
/// other tools call `name`, or else all within a small edit distance, or with one a prefix of the other; in
/// any case.
std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string> known);

/// "; did you mean a or b?"; empty where there are none.
std::string did_you_mean(std::span<const std::string> names);

/// "unknown model 'resnet5'; did you mean resnet50 or resnet152?" with the command that prints the
/// whole list as advice. Throws ConfigError; `what` is the kind of thing ("model").
[[noreturn]] void throw_unknown_name(std::string_view what, std::string_view name,
                                     std::span<const std::string> known, std::string_view list_command);

/// "a", "a or b", "a, b or c".
std::string join_alternatives(std::span<const std::string> names);

// Words of a command line: a flag is its name and the values behind it.

/// "batch" of "--batch=4", "-batch" and "--batch".
std::string flag_name(std::string_view word);
/// `words` without the flags of these names.
std::vector<std::string> without_flags(const std::vector<std::string>& words,
                                       std::span<const std::string_view> names);
/// `words` with the flags of `others` in place of those of the same names.
std::vector<std::string> with_flags(const std::vector<std::string>& words,
                                    const std::vector<std::string>& others);

}  // namespace lockstep
