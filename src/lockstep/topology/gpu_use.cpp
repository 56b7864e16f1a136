#include "lockstep/topology/gpu_use.h"

#include <algorithm>
#include <functional>

namespace lockstep::topology {
namespace {

template <typename Value>
std::optional<Spread> spread_of(const std::vector<GpuSample>& samples,
                                std::optional<Value> GpuSample::*member) {
  std::vector<double> values;
  for (const GpuSample& sample : samples) {
    if (sample.*member) values.push_back(static_cast<double>(*(sample.*member)));
  }
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
  return Spread{values.front(), median, values.back()};
}

/// Of what stays the same, as far as anybody knows.
template <typename Value>
std::optional<double> limit_of(const std::vector<GpuSample>& samples,
                               std::optional<Value> GpuSample::*member) {
  const std::optional<Spread> all = spread_of(samples, member);
  return all ? std::optional(all->most) : std::nullopt;
}

void add_slowdowns(GpuUse& use, const std::vector<GpuSample>& samples) {
  const auto count = static_cast<double>(samples.size());
  for (const GpuSample& sample : samples) {
    if (!sample.slowed_by.empty()) use.slowed_share += 1 / count;
    for (const std::string& by : sample.slowed_by) {
      auto known = std::ranges::find(use.slowed_by, by, &Slowdown::by);
      if (known == use.slowed_by.end()) known = use.slowed_by.insert(use.slowed_by.end(), {by, 0});
      known->share += 1 / count;
    }
  }
  std::ranges::stable_sort(use.slowed_by, std::greater<>(), &Slowdown::share);
}

}  // namespace

GpuUse summarize(const std::vector<GpuSample>& samples) {
  GpuUse use{.samples = static_cast<int>(samples.size()),
             .sm_clock_mhz = spread_of(samples, &GpuSample::sm_clock_mhz),
             .max_sm_clock_mhz = limit_of(samples, &GpuSample::max_sm_clock_mhz),
             .memory_clock_mhz = spread_of(samples, &GpuSample::memory_clock_mhz),
             .temperature_c = spread_of(samples, &GpuSample::temperature_c),
             .power_w = spread_of(samples, &GpuSample::power_w),
             .power_limit_w = limit_of(samples, &GpuSample::power_limit_w),
             .kernel_share = spread_of(samples, &GpuSample::kernel_share),
             .memory_share = spread_of(samples, &GpuSample::memory_share),
             .memory_used_bytes = spread_of(samples, &GpuSample::memory_used_bytes),
             .memory_bytes = limit_of(samples, &GpuSample::memory_bytes),
             .slowed_share = 0,
             .slowed_by = {}};
  add_slowdowns(use, samples);
  return use;
}

}  // namespace lockstep::topology
