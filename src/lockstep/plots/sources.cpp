#include "lockstep/plots/sources.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "lockstep/results/record/baseline.h"

namespace lockstep::plots {

std::vector<std::string> display_names(const std::vector<std::string>& paths) {
  std::map<std::string, int> count;
  const auto short_name = [](const std::string& path) { return std::filesystem::path(path).stem().string(); };
  for (const std::string& path : paths) ++count[short_name(path)];
  std::vector<std::string> names;
  for (const std::string& path : paths)
    // Two files of one name in different folders keep their paths.
    names.push_back(count[short_name(path)] > 1 ? path : short_name(path));
  return names;
}

void complete(Sources& sources) {
  if (sources.records.empty()) sources.records.swap(sources.published);
  for (NamedRecord& named : sources.records) {
    // Files of PyTorch's benchmark, and parts of records, come without.
    const bool known =
        std::ranges::any_of(named.record.runs, [](const auto& run) { return run.speedup.has_value(); });
    if (!known) results::assign_baselines(named.record);
  }
}

}  // namespace lockstep::plots
