#pragma once

#include <optional>
#include <span>

namespace lockstep::measure {

/// Two levels that samples gather around, as where some messages wait for a timer and others do not.
struct TwoModes {
  /// Medians of the two groups, in the samples' unit.
  double fast = 0;
  double slow = 0;
  /// Share of the samples in the slower group.
  double slow_share = 0;
};

/// Splits positive samples into two groups where the split explains most of the variance of their logarithms
/// (Otsu 1979). Empty unless it explains 80 % (75 % for a flat distribution, 64 % for a normal one), the
/// groups' medians are a fifth apart, and each group has a tenth of the samples, of 40 at least.
std::optional<TwoModes> two_modes(std::span<const double> samples);

}  // namespace lockstep::measure
