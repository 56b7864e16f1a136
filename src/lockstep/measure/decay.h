#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace lockstep::measure {

/// The decay of a warm-up, from where it passes two heights above the noise.
struct Decay {
  /// Steps in which it falls to 1 / e.
  double constant = 0;
  /// The step at which it is down to the lower height, kLow.
  double low_step = 0;

  /// In units of the noise.
  static constexpr double kHigh = 8;
  static constexpr double kLow = 2;

  /// The first step from which on its tail, step by step far below the noise, adds up to less than half a
  /// standard error of the mean of `count` following steps of which so many tell as much as `effective`
  /// independent ones.
  double harmless_from(double count, double effective) const;
};

/// `deviations`: how far each step lies from the settled level, in units of the noise, positive where warm-up
/// lies. Looks at the first `within` steps, through running medians of five. Empty: it never was above kHigh.
/// A warm-up that ends at once has a constant near zero.
std::optional<Decay> find_decay(std::span<const double> deviations, size_t within);

}  // namespace lockstep::measure
