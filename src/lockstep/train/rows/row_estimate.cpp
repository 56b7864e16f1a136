#include "lockstep/train/rows/row_estimate.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <tuple>

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/models/model.h"
#include "lockstep/replica/precision.h"
#include "lockstep/train/rows/row_input.h"
#include "lockstep/train/rows/row_rules.h"
#include "lockstep/train/rows/row_runner.h"
#include "lockstep/train/rows/row_trainee.h"

namespace lockstep::train {
namespace {

/// LibTorch with its libraries and their buffers, in host memory and on a GPU: CUDA's context, cuDNN's and
/// cuBLAS's work spaces, NCCL's buffers.
constexpr int64_t kHostProcessBytes = 350 * kMiB;
constexpr int64_t kGpuHostProcessBytes = 2 * kGiB;
constexpr int64_t kGpuContextBytes = 1 * kGiB;

/// Safety factor of the advised batch, for fragmentation and for memory that the estimate does not know of.
constexpr double kMargin = 0.9;

/// Host memory of batches that wait for the step, of 8-bit pixels.
int64_t waiting_bytes(const RowPlan& row) {
  if (!inputs::registry().get(row.input).has_prefetch) return 0;
  const inputs::InputOptions options = input_options_of(row);
  return int64_t{std::max(options.prefetch, options.workers)} * options.batch * options.channels *
         options.image_size * options.image_size;
}

/// What docs/strategies.md says that a rank keeps, and the units that it has beside.
replica::MemoryUse states_of(const RowPlan& row) {
  using namespace strategies;
  const models::ModelInfo& info = models::info_of(row.model);
  const StrategyOptions& options = row.parsed_options;
  const int64_t all = 4 * info.parameters, largest = 4 * info.largest_parameter, ranks = row.ranks;
  replica::MemoryUse use{.parameters = all, .gradients = all, .momenta = all};
  if (row.strategy == "sharded") {
    const int64_t hosts = options.hierarchical ? std::max(1, row.hosts) : 1;
    const int64_t own = all * hosts / ranks;
    const int64_t unit = std::min(all, std::max(largest, options.unit_bytes()));
    use.momenta = own;
    if (options.shard != Shard::kOptimizer) use.gradients = own;
    // Gradients of a unit and of the one before it, which is on its way.
    if (options.shard != Shard::kOptimizer) use.gathered += std::min(all, 2 * unit);
    if (options.shard == Shard::kParameters) {
      use.parameters = own;
      use.gathered += std::min(all, (1 + options.prefetch_units) * unit);
    }
  } else if (row.strategy == "parameter_server") {
    use.momenta = options.parameter_owners == ParameterOwners::kRank0 ? all : std::max(largest, all / ranks);
    if (options.consistency == Consistency::kAsync) use.buffers = 3 * use.momenta;
  } else if (row.strategy == "data_parallel") {
    use.parameters = ranks * all;
  } else if (row.strategy == "bsp") {
    const int64_t part = largest / ranks;
    if (options.exchange == Exchange::kAr) use.buffers = largest;
    if (options.exchange == Exchange::kNccl16) use.buffers = largest / 2;
    if (options.exchange == Exchange::kAsa32) use.buffers = 2 * largest + part;
    if (options.exchange == Exchange::kAsa16) use.buffers = largest + part;
  }
  return use;
}

/// Memory on the device that holds the row's tensors.
MemoryEstimate estimate_memory(const RowPlan& row, const models::ModelCost& cost) {
  const models::ModelInfo& info = models::info_of(row.model);
  MemoryEstimate estimate;
  estimate.process_bytes = on_gpu(row) ? kGpuContextBytes : kHostProcessBytes;
  // With a second set of gradients: autograd's beside the buckets. All parameters are there at the start.
  const replica::MemoryUse states = states_of(row);
  const int64_t all = 4 * info.parameters;
  estimate.parameter_bytes =
      states.gathered > 0 ? states.total() + std::max(all, states.gathered + 4 * info.largest_parameter)
                          : std::max(4 * all, states.total() + all);
  // 16-bit copies of the weights, with gradients of their own.
  if (replica::keeps_weight_copies(replica::parse_precision(row.precision)))
    estimate.parameter_bytes += 2 * 2 * info.parameters;
  // The backward pass holds gradients of its current activations beside all kept activations.
  estimate.activation_bytes = row.batch_per_rank * cost.activation_bytes * 5 / 4;
  if (!on_gpu(row)) estimate.activation_bytes += waiting_bytes(row);
  return estimate;
}

/// Host memory of a rank whose tensors are on a GPU. Parameters are created on the host first.
MemoryEstimate estimate_host_memory(const RowPlan& row) {
  const models::ModelInfo& info = models::info_of(row.model);
  return {.process_bytes = kGpuHostProcessBytes,
          .parameter_bytes = 4 * info.parameters,
          .activation_bytes = waiting_bytes(row)};
}

/// The ranks that share some memory.
struct Tenants {
  int ranks = 1;
  /// Memory of the ranks that sleep while the row runs.
  int64_t idle_bytes = 0;

  int64_t needed_bytes(const MemoryEstimate& estimate) const {
    return ranks * estimate.total_bytes() + idle_bytes;
  }
};

std::string shortage(const RowPlan& row, const MemoryEstimate& estimate, int64_t needed_bytes,
                     int64_t available_bytes, const std::string& where) {
  return fmt::format("{} needs about {} on {} ({} per rank), but only {} are available", row.label(),
                     format_bytes(needed_bytes), where, format_bytes(estimate.total_bytes()),
                     format_bytes(available_bytes));
}

void require_room(const RowPlan& row, const MemoryEstimate& estimate, const Tenants& tenants,
                  int64_t available_bytes, const std::string& where) {
  const int64_t needed_bytes = tenants.needed_bytes(estimate);
  if (needed_bytes <= available_bytes) return;
  const int64_t fixed_bytes =
      tenants.idle_bytes + tenants.ranks * (estimate.process_bytes + estimate.parameter_bytes);
  const int64_t per_image_bytes =
      std::max<int64_t>(1, tenants.ranks * estimate.activation_bytes / row.batch_per_rank);
  const int64_t fitting = std::min<int64_t>(
      row.batch_per_rank - 1, std::max<int64_t>(0, available_bytes - fixed_bytes) / per_image_bytes);
  throw ConfigError(
      shortage(row, estimate, needed_bytes, available_bytes, where),
      fitting > 0 ? fmt::format("Use --batch {} or less, fewer ranks, or a smaller --image-size.", fitting)
                  : std::string("Use fewer ranks or a smaller model: not even a batch of 1 would fit."));
}

/// Whether activations are kept in 16 bits.
bool in_16_bits(const RowPlan& row) {
  return replica::bytes_per_number(replica::parse_precision(row.precision)) == 2;
}

/// The cost of the row's network, which is measured once per process, however many rows have it.
const models::ModelCost& cost_of(const RowPlan& row) {
  using Key = std::tuple<std::string, int, bool>;
  static std::mutex mutex;
  static std::map<Key, models::ModelCost> known;
  const Key key(row.model, row.image_size, in_16_bits(row));
  const std::lock_guard lock(mutex);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known.emplace(key, models::measure_cost(models::info_of(row.model), row.image_size, in_16_bits(row)))
      .first->second;
}

/// Images of a step whose whole batch would take longer. With fewer, kernels take other algorithms
/// (kernels/winograd.h).
constexpr int kFewImages = 4;
constexpr double kLongestStep_s = 1;
/// Steps that are tried, and seconds after which no other one is.
constexpr int kTriedSteps = 5;
constexpr double kTriedTime_s = 0.5;
/// Share of a step in which backward hides communication where cores are free.
constexpr double kHidingShare = 0.6;

StepCost try_batch(RowPlan row, int images) {
  row.batch_per_rank = images;
  row.strategy = results::kSingle;
  row.parsed_options = {};
  row.ranks = row.accumulate = 1;
  row.input = "device";
  row.verify_every = 0;
  const double begin_s = now_s();
  RowTrainee trainee(row, nullptr);
  launch::Progress progress;
  const auto step_s = [&] {
    return trainee.train({.warmup_steps = 0, .steps = 1}, /*coupled=*/true, /*stamp_phases=*/false, progress)
        .step_s.front();
  };
  step_s();
  StepCost cost{.set_up_s = now_s() - begin_s};
  int steps = 0;
  while (steps < kTriedSteps && cost.step_s < kTriedTime_s) {
    cost.step_s += step_s();
    ++steps;
  }
  cost.step_s /= steps;
  return cost;
}

/// Seconds in which a core sends, receives and sums a byte of gradients through sockets of this machine.
double second_per_byte() {
  static const double found = [] {
    constexpr size_t kPiece = 1 << 16;
    constexpr int kPieces = 512;
    std::array<int, 2> ends{};
    std::vector<float> sum(kPiece / sizeof(float)), received(sum.size());
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) return 1e-9;
    const double begin_s = now_s();
    for (int i = 0; i < kPieces; ++i) {
      if (::send(ends[0], sum.data(), kPiece, MSG_DONTWAIT) > 0)
        static_cast<void>(::recv(ends[1], received.data(), kPiece, MSG_DONTWAIT));
      std::ranges::transform(sum, received, sum.begin(), std::plus{});
    }
    const double took_s = now_s() - begin_s;
    for (const int end : ends) ::close(end);
    return took_s / (kPieces * kPiece);
  }();
  return found;
}

}  // namespace

MemoryEstimate estimate_memory(const RowPlan& row) {
  return estimate_memory(row, cost_of(row));
}

replica::MemoryUse predict_memory(const RowPlan& row) {
  replica::MemoryUse use = states_of(row);
  use.activations = row.batch_per_rank * cost_of(row).activation_bytes * 5 / 4 + waiting_bytes(row);
  return use;
}

WithinLimit rows_within(std::vector<RowPlan> rows, int64_t limit_bytes) {
  WithinLimit within;
  for (RowPlan& row : rows) {
    const int64_t needed = estimate_memory(row).total_bytes();
    if (needed <= limit_bytes) {
      within.rows.push_back(std::move(row));
    } else {
      within.left_out.push_back(fmt::format("{} needs about {} per rank, above --memory-limit {}",
                                            row.label(), format_bytes(needed), format_bytes(limit_bytes)));
    }
  }
  return within;
}

std::vector<std::string> check_memory(const std::vector<RowPlan>& rows, int ranks_per_host,
                                      int64_t available_bytes) {
  constexpr const char* kHost = "one host";
  std::vector<std::string> shortages;
  for (const RowPlan& row : rows) {
    const MemoryEstimate estimate =
        on_gpu(row) ? estimate_host_memory(row) : estimate_memory(row, cost_of(row));
    const int local_ranks = std::min(row.ranks, ranks_per_host);
    const Tenants tenants{.ranks = local_ranks,
                          .idle_bytes = int64_t{ranks_per_host - local_ranks} * estimate.process_bytes};
    if (!on_gpu(row)) {
      require_room(row, estimate, tenants, available_bytes, kHost);
    } else if (const int64_t needed_bytes = tenants.needed_bytes(estimate); needed_bytes > available_bytes) {
      shortages.push_back(shortage(row, estimate, needed_bytes, available_bytes, kHost));
    }
  }
  return shortages;
}

void check_gpu_memory(const std::vector<RowPlan>& rows, const std::vector<GpuRoom>& gpus) {
  for (const RowPlan& row : rows) {
    if (!on_gpu(row)) continue;
    const MemoryEstimate estimate = estimate_memory(row, cost_of(row));
    const size_t ranks = std::min(gpus.size(), static_cast<size_t>(row.ranks));
    std::map<std::string, Tenants> tenants;
    for (size_t rank = 0; rank < ranks; ++rank) {
      const auto [on_this, is_first] = tenants.try_emplace(gpus[rank].name);
      if (!is_first) ++on_this->second.ranks;
    }
    for (size_t rank = 0; rank < ranks; ++rank) {
      const GpuRoom& gpu = gpus[rank];
      require_room(row, estimate, tenants.at(gpu.name), gpu.available_bytes, gpu.name);
    }
  }
}

int fitting_batch(const RowPlan& row, const MemoryEstimate& estimate, int64_t used_bytes) {
  // The memory in use when it ran out held the parameters and as many activations as fit.
  const auto room_bytes = static_cast<double>(used_bytes - estimate.parameter_bytes);
  const double share =
      std::min(1.0, room_bytes / static_cast<double>(std::max<int64_t>(1, estimate.activation_bytes)));
  return std::clamp(static_cast<int>(kMargin * share * row.batch_per_rank), 0, row.batch_per_rank - 1);
}

StepCost try_steps(const RowPlan& row) {
  // A network from a file has whole batches only.
  const bool whole = models::info_of(row.model).file != nullptr;
  const int images = whole ? row.batch_per_rank : std::min(kFewImages, row.batch_per_rank);
  StepCost cost = try_batch(row, images);
  if (images == row.batch_per_rank) return cost;
  cost.step_s *= static_cast<double>(row.batch_per_rank) / images;
  return cost.step_s < kLongestStep_s ? try_batch(row, row.batch_per_rank) : cost;
}

double exchange_s(const RowPlan& row, double step_s, int ranks_on_host, int free_cores) {
  if (row.ranks == 1 || row.strategy == results::kIndependent || row.strategy == results::kSingle) return 0;
  const double bytes = 4.0 * static_cast<double>(models::info_of(row.model).parameters);
  const double moved = 2.0 * (row.ranks - 1) / row.ranks * bytes * second_per_byte();
  if (free_cores >= ranks_on_host) return std::max(0.1 * moved, moved - kHidingShare * step_s);
  return moved;
}

Duration duration_of(const RowPlan& row, const StepCost& cost, bool breakdown) {
  const auto time_of = [&](auto steps) { return row.accumulate * cost.step_s * static_cast<double>(steps); };
  double around_s = cost.set_up_s + row.tune_budget_s;
  if (breakdown) around_s += cost.set_up_s + time_of(expected_steps(breakdown_pacing(row)));
  const PacingOptions& pacing = row.pacing;
  const double counted_s = time_of(expected_steps(pacing));
  const double least_s = std::min(pacing.steps ? counted_s : pacing.min_time_s, pacing.time_limit_s());
  const double most_s = pacing.steps ? least_s : pacing.time_limit_s();
  const double first_s = pacing.period * time_of(steps_to_first_decision(pacing));
  return {around_s + std::max(first_s, least_s), around_s + std::max(first_s, most_s)};
}

}  // namespace lockstep::train
