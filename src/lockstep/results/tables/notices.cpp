#include "lockstep/results/tables/notices.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "lockstep/results/tables/row_tables.h"

namespace lockstep::results {
namespace {

std::string row_text(const Run& run) {
  return fmt::format("{} {} at {}", run.model, run.strategy, counted(run.ranks, "rank"));
}

}  // namespace

std::string warning_text(const Warning& warning) {
  const std::string_view head = warning.loud ? "WARNING: " : "Warning: ";
  std::string text = wrapped(head, warning.text, head.size());
  if (!warning.advice.empty()) text += wrapped("         -> ", warning.advice, head.size() + 3);
  if (!warning.loud) return text;
  const std::string line(100, '!');
  return fmt::format("{}\n{}{}\n", line, text, line);
}

std::vector<Warning> warnings_of_rows(const RunRecord& record) {
  std::vector<Warning> all;
  std::vector<std::vector<std::string>> others;
  for (const Run& run : record.runs) {
    for (const Warning& warning : run.warnings) {
      // Rows of a sweep tend to share their trouble: one warning per advice.
      const auto known = std::ranges::find_if(all, [&](const Warning& other) {
        return other.advice == warning.advice && other.loud == warning.loud;
      });
      if (known == all.end()) {
        all.push_back({fmt::format("{}: {}", row_text(run), warning.text), warning.advice, warning.loud});
        others.emplace_back();
      } else {
        others[static_cast<size_t>(known - all.begin())].push_back(row_text(run));
      }
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (!others[i].empty()) all[i].text += fmt::format(" Likewise: {}.", fmt::join(others[i], ", "));
  }
  return all;
}

std::string closing_text(const RunRecord& record) {
  std::string text;
  for (const Warning& warning : record.warnings) {
    if (warning.loud) text += warning_text(warning);
  }
  for (const Warning& warning : warnings_of_rows(record)) text += warning_text(warning);
  if (!record.incomplete.empty()) {
    text += wrapped("INCOMPLETE: ", record.incomplete, 12);
    text += "            Only what was measured until then is here.\n";
  }
  return text;
}

}  // namespace lockstep::results
