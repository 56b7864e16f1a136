#include "job_links.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/staging/open_copy_engine.h"
#include "lockstep/results/files/json_gpus.h"
#include "lockstep/topology/visible_gpus.h"
#include "lockstep/train/rows/agreement.h"

#include "version.h"

namespace lockstep::cli {
namespace {

constexpr const char* kNccl = "nccl";

/// What carries host memory.
std::string control_backend(const RankOptions& options) {
  if (options.backend != kNccl) return options.backend;
  return options.launch == "threads" ? "thread" : "gloo";
}

topology::RankGpu own_gpu(const RankJob& job, const JobRank& rank) {
  topology::RankGpu own;
  own.host = job.machine().host;
  const std::vector<topology::VisibleGpu> visible = topology::visible_gpus();
  const auto number = static_cast<size_t>(rank.gpu);
  if (number < visible.size()) {
    own.name = visible[number].name;
    own.pci_bus_id = visible[number].pci_bus_id;
    own.uuid = visible[number].uuid;
  }
  return own;
}

}  // namespace

void agree_on(const char* command, const train::Facts& plan, const RankOptions& options,
              const JobRank& rank) {
  // What explains the most comes first.
  train::Facts facts{{"version", version_text()},
                     {"command", command},
                     {"--device", options.device},
                     {"--backend", options.backend},
                     {"--share-device", options.share_device ? "on" : "off"},
                     {"--threads", std::to_string(options.threads)}};
  facts.insert(facts.end(), plan.begin(), plan.end());
  train::agree_on_plan(facts, rank.environment.rank, rank.environment.world, rank.store);
}

std::vector<topology::RankGpu> compare_gpus(const RankJob& job, const JobRank& rank) {
  std::vector<topology::RankGpu> gpus;
  if (!job.on_gpus()) return gpus;
  train::agree("gpus", results::rank_gpu_to_json(own_gpu(job, rank)), rank.environment.rank,
               rank.environment.world, rank.store,
               [&](const std::vector<std::string>& by_rank) -> std::optional<ConfigError> {
                 for (const std::string& text : by_rank) {
                   // The others never use theirs.
                   if (gpus.size() < static_cast<size_t>(job.ranks()))
                     gpus.push_back(results::rank_gpu_from_json(text));
                 }
                 if (job.options().share_device) return std::nullopt;
                 return topology::why_gpus_clash(gpus);
               });
  return gpus;
}

JobLinks connect_all(const RankJob& job, const JobRank& rank) {
  const RankOptions& options = job.options();
  comm::ConnectOptions connect{.rank = rank.environment.rank,
                               .size = rank.environment.world,
                               .store = &rank.store,
                               .timeout = comm::Duration(std::max(300.0, 10 * options.timeout_s)),
                               .interface = options.interface,
                               .cuda_device = -1};
  const bool two = options.backend == kNccl;
  const bool works = rank.environment.rank < job.ranks();
  // Who has nothing to send takes no memory of a GPU for it.
  if (!two && works) connect.cuda_device = rank.gpu;
  JobLinks links;
  links.control = comm::connect(control_backend(options), connect);
  if (!two || !works) return links;
  connect.size = job.ranks();
  connect.cuda_device = rank.gpu;
  links.data = comm::connect(options.backend, connect);
  return links;
}

void require_helpers(const RankOptions& options) {
  if (!options.on_gpus()) return;
  if (options.backend != kNccl) return comm::require_copy_engine();
  const comm::BackendStatus status = comm::backend_status(control_backend(options));
  if (status.usable) return;
  throw BackendMissing(fmt::format("backend nccl needs {} beside it, for what ranks say to each other from "
                                   "host memory: {}",
                                   status.name, status.detail),
                       status.advice);
}

}  // namespace lockstep::cli
