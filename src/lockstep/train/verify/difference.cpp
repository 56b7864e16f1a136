#include "lockstep/train/verify/difference.h"

#include <fmt/format.h>

namespace lockstep::train {

std::string tolerance_text(const LargestDifference& largest) {
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

}  // namespace lockstep::train
