#include "lockstep/base/names.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

/// Levenshtein distance, with one row of the table at a time.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substitute, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string> known) {
  std::vector<std::pair<size_t, std::string>> scored;
  for (const std::string& candidate : known) {
    const bool prefix = !name.empty() && (candidate.starts_with(name) || name.starts_with(candidate));
    const size_t distance = edit_distance(name, candidate);
    // Two mistakes in a short name, a third of the letters in a long one.
    if (prefix || distance <= std::max<size_t>(2, candidate.size() / 3)) {
      scored.emplace_back(prefix ? std::min<size_t>(distance, 2) : distance, candidate);
    }
  }
  // Stable: names at the same distance keep the order in which the lists show them.
  std::stable_sort(scored.begin(), scored.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min<size_t>(3, scored.size()); ++i) names.push_back(scored[i].second);
  return names;
}

std::string join_alternatives(std::span<const std::string> names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

void throw_unknown_name(std::string_view what, std::string_view name, std::span<const std::string> known,
                        std::string_view list_command) {
  const std::vector<std::string> near = nearest_names(name, known);
  const std::string guess = near.empty() ? "" : fmt::format("; did you mean {}?", join_alternatives(near));
  throw ConfigError(fmt::format("unknown {} '{}'{}", what, name, guess),
                    fmt::format("'{}' lists all of them.", list_command));
}

}  // namespace lockstep
