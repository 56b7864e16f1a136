#pragma once

namespace lockstep {

/// One reason to refuse a command before anything is started. Rules stand in lists, one for each stage of a
/// command; a list is checked from its beginning, so it says in one place which of several mistakes a user
/// hears of first.
template <typename... Subject>
struct Rule {
  /// The flags or facts that decide, for whoever reads the list.
  const char* looks_at;
  /// Throws ConfigError, or BackendMissing, where the rule is broken.
  void (*check)(const Subject&... subject);
};

/// Throws the error of the first rule that is broken.
template <typename Rules, typename... Subject>
void require_all(const Rules& rules, const Subject&... subject) {
  for (const auto& rule : rules) rule.check(subject...);
}

}  // namespace lockstep
