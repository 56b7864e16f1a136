#include "lockstep/train/job/job_site.h"

#include <algorithm>

#include "lockstep/launch/signals.h"
#include "lockstep/topology/inspect.h"

namespace lockstep::train {

std::vector<int> JobSite::usual_ranks() const {
  int most = static_cast<int>(cores.size());
  if (on_gpus()) most = std::max(1, gpus.count);
  if (environment) most = environment->world;
  std::vector<int> powers;
  for (int ranks = 1; ranks <= most; ranks *= 2) powers.push_back(ranks);
  return powers;
}

JobSite inspect_site(JobOptions options) {
  check_options(options);
  JobSite site{.options = std::move(options),
               .environment = launch::detect_environment(),
               .gpus = {.usable = false,
                        .detail = "NVIDIA's driver shows none to this process",
                        .advice = "",
                        .count = 0},
               .cores = launch::usable_cores(),
               .machine = topology::inspect_host()};
  if (may_use_gpus(site.options)) {
    // Threads that CUDA's libraries start inherit the mask, so that no signal of the user ends up in them.
    const launch::BlockedSignals blocked;
    site.gpus = replica::accelerator_status();
  }
  settle_options(site.options, site.environment, site.gpus);
  return site;
}

}  // namespace lockstep::train
