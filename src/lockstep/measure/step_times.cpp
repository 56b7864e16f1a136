#include "lockstep/measure/step_times.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "lockstep/base/error.h"

namespace lockstep::measure {

void require_step_times(std::span<const double> step_s) {
  for (size_t i = 0; i < step_s.size(); ++i) {
    if (std::isfinite(step_s[i]) && step_s[i] >= 0) continue;
    throw Error(
        fmt::format("step {} of {} has the time {} s", i, step_s.size(), step_s[i]),
        "A step time is a finite number of seconds, not below zero; look at where the samples come from.");
  }
}

double logarithm(double step_s) {
  constexpr double kShortest = 1e-9;
  return std::log(std::max(step_s, kShortest));
}

std::vector<double> logarithms(std::span<const double> step_s) {
  std::vector<double> logs(step_s.size());
  std::transform(step_s.begin(), step_s.end(), logs.begin(), logarithm);
  return logs;
}

}  // namespace lockstep::measure
