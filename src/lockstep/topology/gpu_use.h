#pragma once

#include <cstdint>
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

/// Activity of a GPU over some time, from samples of its driver. Empty: the driver does not tell.
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

  template <typename Fields, typename Self>
  static void describe(Fields& fields, Self& use) {
    fields("samples", use.samples);
    fields("sm_clock_mhz", use.sm_clock_mhz);
    fields("memory_clock_mhz", use.memory_clock_mhz);
    fields("temperature_c", use.temperature_c);
    fields("power_w", use.power_w);
    fields("kernel_share", use.kernel_share);
    fields("memory_share", use.memory_share);
    fields("memory_used_bytes", use.memory_used_bytes);
    fields("max_sm_clock_mhz", use.max_sm_clock_mhz);
    fields("power_limit_w", use.power_limit_w);
    fields("memory_bytes", use.memory_bytes);
    fields("slowed_share", use.slowed_share);
    fields("slowed_by", use.slowed_by);
  }
};

}  // namespace lockstep::topology
