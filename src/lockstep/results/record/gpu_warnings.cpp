#include "lockstep/results/record/gpu_warnings.h"

#include <algorithm>

#include <fmt/format.h>

namespace lockstep::results {
namespace {

using topology::GpuUse;
using topology::Slowdown;

/// Shares above which something is said.
constexpr double kSlowedShare = 0.05;
constexpr double kClockDifference = 0.05;

/// "power cap in 33 % of the samples, hardware thermal slowdown in 2 %".
std::string slowdowns_text(const GpuUse& use) {
  std::vector<std::string> parts;
  for (const Slowdown& slowdown : use.slowed_by) {
    parts.push_back(fmt::format("{} in {:.0f} %{}", slowdown.by, 100 * slowdown.share,
                                parts.empty() ? " of the samples" : ""));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::vector<Warning> gpu_warnings(const std::vector<GpuUse>& by_rank) {
  std::vector<Warning> warnings;
  if (by_rank.empty()) return warnings;
  const auto slowed = [](const GpuUse& use) { return use.slowed_share > kSlowedShare; };
  const auto ranks = std::ranges::count_if(by_rank, slowed);
  const auto worst = std::ranges::max_element(by_rank, {}, &GpuUse::slowed_share);
  if (ranks > 0) {
    std::string text = fmt::format("The GPU of rank {} was slowed down: {}.", worst - by_rank.begin(),
                                   slowdowns_text(*worst));
    if (worst->sm_clock_mhz && worst->max_sm_clock_mhz) {
      text += fmt::format(" Its clock was {:.0f} to {:.0f} of {:.0f} MHz.", worst->sm_clock_mhz->least,
                          worst->sm_clock_mhz->most, *worst->max_sm_clock_mhz);
    }
    if (ranks > 1) text += fmt::format(" Of {} ranks it is the worst.", ranks);
    warnings.push_back(
        {std::move(text),
         "nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE says more. Compare only with runs that "
         "were held back alike.",
         false});
  }
  const GpuUse* slowest = nullptr;
  const GpuUse* fastest = nullptr;
  for (const GpuUse& use : by_rank) {
    if (!use.sm_clock_mhz) continue;
    if (slowest == nullptr || use.sm_clock_mhz->median < slowest->sm_clock_mhz->median) slowest = &use;
    if (fastest == nullptr || use.sm_clock_mhz->median > fastest->sm_clock_mhz->median) fastest = &use;
  }
  if (slowest != nullptr &&
      slowest->sm_clock_mhz->median < (1 - kClockDifference) * fastest->sm_clock_mhz->median) {
    warnings.push_back({fmt::format("The GPU of rank {} ran at {:.0f} MHz, that of rank {} at {:.0f} MHz.",
                                    slowest - by_rank.data(), slowest->sm_clock_mhz->median,
                                    fastest - by_rank.data(), fastest->sm_clock_mhz->median),
                        "A step takes as long as its slowest rank: see what is different about that GPU.",
                        false});
  }
  return warnings;
}

std::vector<Warning> shared_gpu_warnings(const std::vector<topology::RankGpu>& by_rank) {
  const std::string text = shared_gpus_text(by_rank);
  if (text.empty()) return {};
  return {{fmt::format("Ranks share GPUs ({}): they take turns, and the numbers say nothing about scaling.",
                       text),
           "Give every rank a GPU of its own, without --share-device.", true}};
}

}  // namespace lockstep::results
