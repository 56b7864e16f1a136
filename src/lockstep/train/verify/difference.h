#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/replica/parameters.h"

namespace lockstep::train {

/// The tensor with the largest difference, as a multiple of the rounding tolerance.
struct LargestDifference {
  double share = 0;
  std::string tensor;
};

/// "54 % of the rounding tolerance", or how many times it, and in which tensor.
inline std::string tolerance_text(const LargestDifference& largest) {
  constexpr double kAsTimes = 10, kUncounted = 1e6;
  std::string text;
  if (largest.share < 0.005) {
    text = "under 1 % of";
  } else if (largest.share < kAsTimes) {
    text = fmt::format("{:.0f} % of", 100 * largest.share);
  } else if (largest.share < kUncounted) {
    text = fmt::format("{:.0f} times", largest.share);
  } else {
    text = "more than a million times";
  }
  text += " the rounding tolerance";
  return largest.share > 1 ? fmt::format("{}, in {}", text, largest.tensor) : text;
}

/// The 2-norm of the difference of all values over that of their moves; infinite where one is not finite.
inline double difference_of_moves(const std::vector<float>& found, const std::vector<float>& expected,
                                  const std::vector<float>& before) {
  double differences = 0, moves = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    differences += std::pow(double{found[i]} - expected[i], 2);
    moves += std::pow(double{expected[i]} - before[i], 2);
  }
  const double share = std::sqrt(differences / moves);
  return std::isfinite(share) ? share : std::numeric_limits<double>::infinity();
}

/// The difference that rounding may cause; derived at verify_row.
struct Tolerance {
  /// Shares of a tensor's largest move and of its largest value.
  double of_move = 0;
  double of_value = 0;
};

/// Compares all values of `tensors`, one after the other. `Number`: float or double.
template <typename Number>
LargestDifference largest_difference(const std::vector<replica::NamedTensor>& tensors,
                                     const std::vector<float>& found, const std::vector<Number>& expected,
                                     const std::vector<float>& before, const Tolerance& tolerance) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  LargestDifference largest;
  size_t at = 0;
  for (const replica::NamedTensor& tensor : tensors) {
    double move = 0, value = 0, difference = 0;
    for (const size_t end = at + static_cast<size_t>(tensor.value.numel()); at < end; ++at) {
      move = std::max(move, std::abs(double{expected[at]} - before[at]));
      value = std::max(value, std::abs(double{expected[at]}));
      const double apart = std::abs(double{expected[at]} - found[at]);
      // Comparisons with NaN are false, so std::max would pass over it.
      difference = std::isfinite(apart) ? std::max(difference, apart) : kInfinite;
    }
    if (!std::isfinite(difference)) return {kInfinite, tensor.name};
    const double allowed = tolerance.of_move * move + tolerance.of_value * value;
    if (difference <= largest.share * allowed) continue;
    largest = {allowed > 0 ? difference / allowed : kInfinite, tensor.name};
  }
  return largest;
}

}  // namespace lockstep::train
