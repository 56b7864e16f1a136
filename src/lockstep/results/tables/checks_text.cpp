#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/results/tables/styles.h"

namespace lockstep::results {
namespace {

void add_once(std::vector<std::string>& texts, std::string text) {
  if (std::ranges::find(texts, text) == texts.end()) texts.push_back(std::move(text));
}

}  // namespace

std::string checks_text(const RunRecord& record, TextForm form) {
  std::vector<std::string> compared, left_out;
  int every = 0;
  for (const Run& run : record.runs) {
    if (!run.replica_checks) continue;
    every = run.replica_checks->every;
    if (!run.replica_checks->not_applicable.empty()) {
      add_once(left_out, fmt::format("{} ({})", run.strategy, run.replica_checks->not_applicable));
    } else {
      compared.push_back(fmt::format("{} {} at {} ranks ({} times)", run.model, run.strategy, run.ranks,
                                     run.replica_checks->checks));
    }
  }
  if (compared.empty() && left_out.empty()) return "";
  std::string text = fmt::format("compared bit for bit every {} steps, and equal: {}.", every,
                                 compared.empty() ? "none" : fmt::format("{}", fmt::join(compared, ", ")));
  if (!left_out.empty()) text += fmt::format(" Not compared: {}.", fmt::join(left_out, ", "));
  return remark("Replicas: ", text, form);
}

}  // namespace lockstep::results
