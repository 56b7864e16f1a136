#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/fields.h"

namespace lockstep::topology {

/// Spread of a value that was sampled several times.
struct Spread {
  double least = 0;
  double median = 0;
  double most = 0;

  bool operator==(const Spread&) const = default;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& spread) {
    fields("min", spread.least, kRequired);
    fields("median", spread.median, kRequired);
    fields("max", spread.most, kRequired);
  }
};

/// A reason that kept a GPU's clocks down, in the words of slowdown_names, and its share of the samples.
struct Slowdown {
  std::string by;
  double share = 0;

  bool operator==(const Slowdown&) const = default;

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& slowdown) {
    fields("by", slowdown.by, kRequired);
    fields("share", slowdown.share);
  }
};

/// Activity of a GPU over some time, from samples of its driver. Empty: unknown to the driver.
struct GpuUse {
  int samples = 0;
  std::optional<Spread> sm_clock_mhz;
  std::optional<double> max_sm_clock_mhz;
  std::optional<Spread> memory_clock_mhz;
  std::optional<Spread> temperature_c;
  std::optional<Spread> power_w;
  std::optional<double> power_limit_w;
  /// Shares of time in which a kernel ran, and in which memory was used.
  std::optional<Spread> kernel_share;
  std::optional<Spread> memory_share;
  /// Memory used by all processes, and all that the GPU has.
  std::optional<Spread> memory_used_bytes;
  std::optional<double> memory_bytes;
  /// Share of the samples in which anything slowed the GPU down, and the reasons, most frequent first.
  double slowed_share = 0;
  std::vector<Slowdown> slowed_by;

  bool operator==(const GpuUse&) const = default;

  LOCKSTEP_DESCRIBE(kOptional, samples, sm_clock_mhz, memory_clock_mhz, temperature_c, power_w, kernel_share,
                    memory_share, memory_used_bytes, max_sm_clock_mhz, power_limit_w, memory_bytes,
                    slowed_share, slowed_by)
};

}  // namespace lockstep::topology
