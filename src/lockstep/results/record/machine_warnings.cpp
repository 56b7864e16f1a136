#include "lockstep/results/record/machine_warnings.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/units.h"

namespace lockstep::results {
namespace {

/// Runnable tasks that a host may have beside us; on a large one some always run.
constexpr double kOtherLoad = 0.5;
constexpr double kOtherLoadPerThread = 0.02;
/// Pages that were swapped out long ago and are not needed do no harm.
constexpr int64_t kSwapBytes = 64 * kMiB;

std::string counted(int count, const char* thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

Warning too_many_threads(const HostPlan& plan, int cores) {
  return {
      fmt::format("{} of {} need {}, but there {} {}: ranks take turns, and the numbers say nothing about "
                  "scaling.",
                  counted(plan.ranks, "rank"), counted(plan.threads_per_rank, "thread"),
                  counted(plan.ranks * plan.threads_per_rank, "core"), cores == 1 ? "is" : "are",
                  counted(cores, "usable core")),
      fmt::format("Use --ranks up to {}, or fewer --threads.", std::max(1, cores / plan.threads_per_rank)),
      true};
}

}  // namespace

std::vector<Warning> machine_warnings(const Machine& machine, const HostPlan& plan) {
  std::vector<Warning> warnings;
  const int cores = plan.cores > 0 ? plan.cores : machine.cores;
  if (plan.ranks * plan.threads_per_rank > cores) warnings.push_back(too_many_threads(plan, cores));
  const double quiet = std::max(kOtherLoad, kOtherLoadPerThread * machine.host_hardware_threads);
  if (machine.load_average && *machine.load_average > quiet) {
    warnings.push_back({fmt::format("The machine was busy before the run (load {:.2f} in the last minute).",
                                    *machine.load_average),
                        "Stop other programs, or wait a minute if it was a build, and run again.", false});
  }
  if (machine.cpu_quota) {
    warnings.push_back(
        {fmt::format("A quota leaves this job {:.2f} of the {} hardware threads that it sees: it is "
                     "stopped for the rest of a period whenever it has used that up.",
                     *machine.cpu_quota, machine.hardware_threads),
         "Give the job whole cores (a cpuset) instead of a quota.", false});
  }
  if (machine.swap_used_bytes > kSwapBytes) {
    warnings.push_back({fmt::format("{} of swap are in use.", format_bytes(machine.swap_used_bytes)),
                        "Free memory, or turn swap off (swapoff -a), so that no rank waits for a disk.",
                        false});
  }
  if (machine.governor == "powersave") {
    warnings.push_back({"The frequency governor is 'powersave': cores may run below their speed.",
                        "Set it: cpupower frequency-set -g performance.", false});
  }
  return warnings;
}

}  // namespace lockstep::results
