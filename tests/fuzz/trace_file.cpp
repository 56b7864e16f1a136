#include <cmath>
#include <stdexcept>

#include "lockstep/base/error.h"
#include "lockstep/measure/phases.h"
#include "lockstep/recordings/kineto_trace.h"
#include "lockstep/recordings/rank_steps.h"

#include "fuzz/reader.h"

namespace lockstep::fuzz {

bool reads_trace_file(std::string_view text) {
  try {
    const recordings::KinetoTrace trace = recordings::parse_kineto_trace(text, "trace.json");
    if (trace.events.empty()) return false;
    recordings::RankSteps steps = recordings::stamp_steps(trace, trace.events.front().begin_ns);
    // The job of a rank and its twin, which a reader of several traces puts together.
    const recordings::JobSteps job = recordings::put_together({{0, "", steps}, {1, "other", steps}});
    const measure::Breakdown found = measure::break_down(job.stamps, 2);
    const measure::PhaseTimes& mean = found.mean;
    const double sum_s =
        mean.input_s + mean.forward_s + mean.backward_s + mean.exposed_s() + mean.optimizer_s + mean.other_s;
    if (!std::isfinite(sum_s) || std::abs(sum_s - mean.step_s) > 1e-6 * std::max(1.0, std::abs(mean.step_s)))
      throw std::logic_error("phases that are not the step");
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace lockstep::fuzz
