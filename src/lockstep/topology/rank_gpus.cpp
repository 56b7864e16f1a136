#include "lockstep/topology/rank_gpus.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace lockstep::topology {
namespace {

constexpr size_t kShownGpus = 16;
constexpr size_t kShownShares = 3;
/// Advice for a host with more ranks than GPUs.
constexpr const char* kOtherWays = "--share-device with --backend gloo, or --device cpu";

/// Equal for ranks that share a GPU; the second part is empty where the GPU is unknown.
std::pair<std::string, std::string> identity_of(const RankGpu& gpu) {
  return {gpu.host, gpu.uuid.empty() ? gpu.pci_bus_id : gpu.uuid};
}

/// "a|b|?"; cut after kShownGpus, because a job may have thousands of ranks.
std::string joined(const std::vector<std::string>& parts) {
  const size_t shown = std::min(kShownGpus, parts.size());
  std::string text;
  for (size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : "|") + (parts[i].empty() ? "?" : parts[i]);
  return shown < parts.size() ? text + "|..." : text;
}

/// "1,2,4".
std::string possible_ranks(int gpus) {
  std::string text = "1";
  for (int ranks = 2; ranks <= gpus; ranks *= 2) text += fmt::format(",{}", ranks);
  return text;
}

}  // namespace

int gpu_of_rank(int local_rank, int gpus) {
  return local_rank % gpus;
}

void require_enough_gpus(int ranks, int gpus) {
  if (ranks <= gpus) return;
  throw ConfigError(fmt::format("ranks 0 to {} of this host want {} GPUs, but there {} {}", ranks - 1, ranks,
                                gpus == 1 ? "is" : "are", gpus),
                    fmt::format("Use --ranks {}, more hosts, {}.", possible_ranks(gpus), kOtherWays));
}

std::optional<ConfigError> why_gpus_clash(const std::vector<RankGpu>& by_rank) {
  const std::string shared = shared_gpus_text(by_rank);
  if (shared.empty()) return std::nullopt;
  return ConfigError(
      shared + ", and each wants one of its own",
      fmt::format(
          "Start as many ranks on a host as it has GPUs, let the launcher give each its own, or use {}.",
          kOtherWays));
}

std::vector<std::vector<int>> ranks_by_shared_gpu(const std::vector<RankGpu>& by_rank) {
  std::map<std::pair<std::string, std::string>, std::vector<int>> owners;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    const auto key = identity_of(by_rank[rank]);
    if (!key.second.empty()) owners[key].push_back(static_cast<int>(rank));
  }
  std::vector<std::vector<int>> shared;
  for (auto& [ignored, ranks] : owners) {
    if (ranks.size() > 1) shared.push_back(std::move(ranks));
  }
  std::ranges::sort(shared);
  return shared;
}

std::string shared_gpus_text(const std::vector<RankGpu>& by_rank) {
  const std::vector<std::vector<int>> shared = ranks_by_shared_gpu(by_rank);
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min(kShownShares, shared.size()); ++i) {
    const std::vector<int>& ranks = shared[i];
    const RankGpu& gpu = by_rank[static_cast<size_t>(ranks.front())];
    const std::vector<int> others(ranks.begin(), ranks.end() - 1);
    parts.push_back(fmt::format("ranks {} and {} have {}{} of {} in common", fmt::join(others, ", "),
                                ranks.back(), gpu.name.empty() ? "a GPU" : gpu.name,
                                gpu.pci_bus_id.empty() ? "" : fmt::format(" ({})", gpu.pci_bus_id),
                                gpu.host));
  }
  if (shared.size() > parts.size()) {
    parts.push_back(fmt::format("and so on for {} more", shared.size() - parts.size()));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string rank_gpus_text(const std::vector<RankGpu>& by_rank) {
  if (by_rank.empty()) return "";
  std::vector<std::string> names, places;
  for (const RankGpu& gpu : by_rank) {
    names.push_back(gpu.name);
    places.push_back(gpu.pci_bus_id);
  }
  // Prints a name shared by all GPUs once.
  const bool alike = std::ranges::count(names, names.front()) == static_cast<int>(names.size());
  const std::string text = alike && !names.front().empty() ? names.front() : joined(names);
  // A recorded training does not say where its GPUs are.
  const bool placed = std::ranges::any_of(places, [](const std::string& place) { return !place.empty(); });
  return placed ? fmt::format("{} ({})", text, joined(places)) : text;
}

}  // namespace lockstep::topology
