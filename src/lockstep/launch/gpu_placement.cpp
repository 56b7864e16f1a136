#include "lockstep/launch/gpu_placement.h"

#include <string>

#include <fmt/format.h>

namespace lockstep::launch {
namespace {

constexpr const char* kOtherWays = "--share-device with --backend gloo, or --device cpu";

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

std::optional<ConfigError> why_gpus_clash(const std::vector<results::RankGpu>& by_rank) {
  const std::string shared = results::shared_gpus_text(by_rank);
  if (shared.empty()) return std::nullopt;
  return ConfigError(
      shared + ", and each wants one of its own",
      fmt::format(
          "Start as many ranks on a host as it has GPUs, let the launcher give each its own, or use {}.",
          kOtherWays));
}

}  // namespace lockstep::launch
