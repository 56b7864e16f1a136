#include "lockstep/train/verify/difference.h"

#include <fmt/format.h>

namespace lockstep::train {

std::string tolerance_text(const Worst& worst) {
  constexpr double kAsTimes = 10, kUncounted = 1e6;
  std::string text;
  if (worst.share < 0.005) {
    text = "under 1 % of";
  } else if (worst.share < kAsTimes) {
    text = fmt::format("{:.0f} % of", 100 * worst.share);
  } else if (worst.share < kUncounted) {
    text = fmt::format("{:.0f} times", worst.share);
  } else {
    text = "more than a million times";
  }
  text += " the rounding tolerance";
  return worst.share > 1 ? fmt::format("{}, in {}", text, worst.tensor) : text;
}

}  // namespace lockstep::train
