#include "lockstep/train/job/job_links.h"

#include <algorithm>

#include <fmt/format.h>

#include <ATen/DeviceAccelerator.h>
#include <c10/util/Exception.h>

#include "lockstep/base/json_codec.h"
#include "lockstep/base/tcp_socket.h"
#include "lockstep/base/units.h"
#include "lockstep/comm/hierarchical_communicator.h"
#include "lockstep/comm/staging/copy_engine.h"
#include "lockstep/launch/rendezvous.h"
#include "lockstep/topology/device_map.h"
#include "lockstep/topology/rank_gpus.h"
#include "lockstep/train/job/versions.h"
#include "lockstep/train/rows/agreement.h"
#include "lockstep/train/rows/row_rules.h"

namespace lockstep::train {
namespace {

/// The backend that carries host memory.
std::string control_backend(const JobOptions& options) {
  if (options.backend != kNccl) return options.backend;
  return options.launch == "threads" ? "thread" : "gloo";
}

/// The most telling differences first: messages name only a few.
Fingerprint fingerprint_of(const char* command, const JobOptions& options) {
  return {{"version", version_text()},
          {"command", command},
          {"--device", options.device},
          {"--backend", options.backend},
          {"--share-device", options.share_device ? "on" : "off"},
          {"--threads", std::to_string(options.threads)}};
}

topology::RankGpu own_gpu(const JobPlan& job, const JobRank& rank) {
  topology::RankGpu own;
  own.host = job.site.machine.host;
  const std::vector<topology::VisibleGpu> visible = topology::visible_gpus();
  const auto number = static_cast<size_t>(rank.gpu);
  if (number < visible.size()) {
    own.name = visible[number].name;
    own.pci_bus_id = visible[number].pci_bus_id;
    own.uuid = visible[number].uuid;
  }
  return own;
}

std::vector<topology::RankGpu> compare_gpus(const JobPlan& job, const JobRank& rank) {
  std::vector<topology::RankGpu> gpus;
  agree("gpus", to_bytes(own_gpu(job, rank)), rank.environment.rank, rank.environment.world, rank.store,
        [&](const std::vector<std::string>& by_rank) {
          // Ranks beyond those that rows need never use their GPUs.
          for (size_t i = 0; i < by_rank.size() && i < static_cast<size_t>(job.ranks); ++i) {
            gpus.push_back(from_bytes<topology::RankGpu>(by_rank[i]));
          }
          if (job.site.options.share_device) return Trouble();
          const auto clash = topology::why_gpus_clash(gpus);
          return clash ? trouble_of(*clash) : Trouble();
        });
  return gpus;
}

/// The most bytes that tensors held at a time.
int64_t most_used_bytes(const RowPlan& row) {
  using c10::CachingAllocator::StatType;
  const auto stats = at::accelerator::getDeviceStats(static_cast<c10::DeviceIndex>(row.device_index));
  return stats.allocated_bytes[static_cast<size_t>(StatType::AGGREGATE)].peak;
}

/// Does `work`, which trains a row. Where the memory of its GPU runs out in it, throws Error that says so,
/// with the batch that would fit.
void with_fitting_batch(const RowPlan& row, const std::function<void()>& work) {
  if (!on_gpu(row)) return work();
  try {
    work();
  } catch (const c10::OutOfMemoryError& error) {
    // LibTorch's message without its advice on settings that the user of lockstep cannot change.
    const std::string message = error.what_without_backtrace();
    const int64_t used_bytes = most_used_bytes(row);
    const int fitting = fitting_batch(row, estimate_memory(row), used_bytes);
    throw Error(
        fmt::format("{} does not fit into the memory of its GPU, of which tensors had {}: {}", row.label(),
                    format_bytes(used_bytes), message.substr(0, message.find(" Of the allocated memory"))),
        fitting > 0 ? fmt::format("Use --batch {} or less, or a smaller --image-size.", fitting)
                    : std::string("Use a smaller model or --image-size: not even a batch of 1 would fit."));
  }
}

}  // namespace

std::vector<topology::RankGpu> agree_on(const char* command, const Fingerprint& plan, const JobPlan& job,
                                        const JobRank& rank) {
  Fingerprint fingerprint = fingerprint_of(command, job.site.options);
  fingerprint.insert(fingerprint.end(), plan.begin(), plan.end());
  agree_on_plan(fingerprint, rank.environment.rank, rank.environment.world, rank.store);
  return job.site.on_gpus() ? compare_gpus(job, rank) : std::vector<topology::RankGpu>();
}

void require_helpers(const JobOptions& options) {
  if (!options.on_gpus()) return;
  if (options.backend != kNccl) return comm::require_copy_engine();
  const comm::BackendStatus status = comm::backend_status(control_backend(options));
  if (status.usable) return;
  throw BackendMissing(fmt::format("backend nccl needs {} beside it, for messages from host memory: {}",
                                   status.name, status.detail),
                       status.advice);
}

namespace {

/// The host of rank 0, for the way there; empty where this is that host.
std::string master_of(const launch::RankEnvironment& environment) {
  if (environment.launcher_addr.empty()) return environment.master_addr;
  // Ranks of other hosts tell which of this host's addresses leads to them.
  std::string host = launch::host_of_rank_0(environment);
  return is_own_address(host) ? "" : host;
}

}  // namespace

comm::ConnectOptions connect_options(const JobOptions& options, const JobRank& rank) {
  return {.rank = rank.environment.rank,
          .size = rank.environment.world,
          .store = &rank.store,
          .timeout = comm::Duration(options.timeout_s),
          .interface = options.interface,
          .master = master_of(rank.environment)};
}

JobLinks::JobLinks(const JobPlan& job, const JobRank& rank) : job_(job), rank_(rank) {
  const JobOptions& options = job.site.options;
  comm::ConnectOptions connect = connect_options(options, rank);
  connect.timeout = comm::Duration(std::max(300.0, 10 * options.timeout_s));
  const bool separate = options.backend == kNccl;
  const bool works = rank.environment.rank < job.ranks;
  // A rank that only waits takes no memory of a GPU for staging.
  if (!separate && works) connect.cuda_device = rank.gpu;
  control_ = std::make_unique<comm::LaneKeeper>(comm::connect(control_backend(options), connect));
  if (separate && works) {
    connect.size = job.ranks;
    connect.cuda_device = rank.gpu;
    data_ = comm::connect(options.backend, connect);
  }
  for (const RowPlan& row : job.rows) {
    // No second one of the same ranks: each costs connections to all of them, NCCL's memory of their GPUs as
    // well.
    if (row.ranks < control_->size() && !control_of_.contains(row.ranks)) {
      std::unique_ptr<comm::Communicator> first = control_->split_first(row.ranks);
      control_of_[row.ranks] =
          first == nullptr ? nullptr : std::make_unique<comm::LaneKeeper>(std::move(first));
    }
    if (data_ == nullptr || row.ranks == data_->size() || data_of_.contains(row.ranks)) continue;
    data_of_[row.ranks] = data_->split_first(row.ranks);
  }
}

void JobLinks::run_row(size_t index, const RowWork& work, int turn) {
  RowPlan row = job_.rows[index];
  if (rank_.gpu >= 0) row.device_index = rank_.gpu;
  const std::string done = fmt::format("row/{}/done/{}", index, turn);
  drop_lanes_except(row.ranks);
  if (rank_.environment.rank >= training_ranks(row)) {
    rank_.progress.begin("waiting for " + row.label());
    rank_.store.get(done, kUntilRowEnds);
    return;
  }
  rank_.progress.begin(row.label());
  RankGroup group = group_of(index);
  group.keys = fmt::format("row/{}/{}/", index, turn);
  std::unique_ptr<comm::Communicator> hierarchical;
  if (row.parsed_options.hierarchical && group.data != nullptr) {
    hierarchical = comm::make_hierarchical(*group.data);
    group.control = group.data = hierarchical.get();
  }
  with_fitting_batch(row, [&] { work(row, group); });
  if (rank_.environment.rank == 0) rank_.store.set(done, "1");
}

comm::LaneKeeper* JobLinks::control_of(int ranks) const {
  return ranks == control_->size() ? control_.get() : control_of_.at(ranks).get();
}

void JobLinks::drop_lanes_except(int ranks) {
  if (ranks != control_->size()) control_->drop_kept();
  for (const auto& [size, communicator] : control_of_) {
    if (size != ranks && communicator != nullptr) communicator->drop_kept();
  }
}

RankGroup JobLinks::group_of(size_t index) const {
  const RowPlan& row = job_.rows[index];
  const bool alone = training_ranks(row) == 1 && !traits_of(row).communicates;
  if (alone) return {};
  comm::Communicator* control = control_of(row.ranks);
  RankGroup group = control;
  if (data_ != nullptr) group.data = row.ranks == data_->size() ? data_.get() : data_of_.at(row.ranks).get();
  group.store = &rank_.store;
  return group;
}

}  // namespace lockstep::train
