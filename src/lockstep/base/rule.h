#pragma once

namespace lockstep {

/// A reason to refuse a command before anything is started: throws ConfigError, or BackendMissing, where the
/// subject breaks it. Rules stand in lists, one for each stage of a command; the order of a list decides
/// which of several mistakes is reported.
template <typename... Subject>
using Rule = void (*)(const Subject&... subject);

/// Throws the error of the first rule that is broken.
template <typename Rules, typename... Subject>
void require_all(const Rules& rules, const Subject&... subject) {
  for (const auto& rule : rules) rule(subject...);
}

}  // namespace lockstep
