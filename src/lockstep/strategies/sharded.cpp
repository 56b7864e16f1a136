#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <malloc.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "lockstep/base/clock.h"
#include "lockstep/comm/hierarchical_communicator.h"
#include "lockstep/strategies/catalog.h"
#include "lockstep/strategies/flat_strategy.h"
#include "lockstep/strategies/units.h"

namespace lockstep::strategies {
namespace {

using replica::Range;

/// The ranks that divide the states among them, and those that have the same shard elsewhere.
struct ShardGroups {
  /// Null: all ranks.
  std::unique_ptr<comm::Communicator> within;
  /// Null: no rank has the same shard.
  std::unique_ptr<comm::Communicator> across;
};

/// Collective. Shards within each host and replicas across hosts, with `hierarchical`.
ShardGroups make_groups(const StrategyContext& context) {
  if (!context.options.hierarchical) return {};
  comm::Communicator& all = *context.communicator;
  const std::vector<std::vector<int>> hosts = comm::ranks_by_host(context.host_communicator());
  const size_t per_host = hosts.front().size();
  for (const std::vector<int>& ranks : hosts) {
    if (ranks.size() == per_host) continue;
    throw ConfigError(
        fmt::format("--hierarchical gives every host the same shards, and hosts have {} and {} ranks",
                    per_host, ranks.size()),
        "Start as many ranks on every host, or leave --hierarchical out.");
  }
  ShardGroups groups;
  if (hosts.size() == 1) return groups;
  const auto join = [&](const std::vector<int>& ranks, std::unique_ptr<comm::Communicator>& own) {
    if (auto group = all.split(ranks)) own = std::move(group);
  };
  for (const std::vector<int>& ranks : hosts) join(ranks, groups.within);
  for (size_t i = 0; i < per_host; ++i) {
    std::vector<int> alike;
    for (const std::vector<int>& ranks : hosts) alike.push_back(ranks[i]);
    join(alike, groups.across);
  }
  return groups;
}

/// The flat memory's order, and how it is divided.
struct Layout {
  std::vector<size_t> order;
  std::vector<size_t> sizes;
};

Layout lay_out(const StrategyContext& context) {
  Layout layout;
  for (const auto& unit : plan_units(context.parameters.trainable(), context.options.unit_bytes())) {
    layout.order.insert(layout.order.end(), unit.begin(), unit.end());
    layout.sizes.push_back(unit.size());
  }
  return layout;
}

/// ZeRO (Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models"):
/// every rank keeps and updates its shard, 1/N of every bucket. Stage 1 (--shard optimizer) divides the
/// momenta, stage 2 (gradients) also the gradients, stage 3 (parameters) everything; all end in the same
/// bits.
///
/// Memory is divided in units (plan_units()), and units in buckets of at most --bucket-mb (stage 3:
/// --unit-mb), in the order in which gradients become ready, padded so that every bucket divides by N:
///
///     bucket:       |  shard of rank 0  |  shard of rank 1  |  ...  |
///     gradients:    reduce-scatter -> the mean of its own shard on each rank
///     values:       update of the own shard -> all-gather -> all shards on all ranks
///
/// A bucket of gradients is reduce-scattered as soon as it is ready during backward (after backward with
/// `overlap` off). In stages 2 and 3 a unit's gradients are released when its shards have arrived, at the
/// latest when the second unit after it is sent. Stages 1 and 2 gather a bucket's values when its shard is
/// updated, in 2 B messages of P' bytes each. Stage 3 keeps shards of the values alone and gathers a unit
/// before the first operation that uses it (replica::ThreadWatch), and the next `prefetch_units` with it, in
/// the order in which the first step used them; a unit that is neither is released. Gathers have a
/// communicator of their own. Most units are gathered twice in a step, so that B more messages of P' bytes
/// are sent.
///
/// With `hierarchical` ranks of a host divide the states, and shards are all-reduced across hosts. Parameters
/// are broadcast from rank 0 at the start, batch-norm buffers never.
class Sharded final : public BucketStrategy {
 public:
  Sharded(const StrategyContext& context, ShardGroups groups, Layout layout)
      : BucketStrategy(
            context, std::move(layout.order),
            groups.within ? groups.within->size() : context.communicator->size(),
            {.sizes = std::move(layout.sizes),
             .with_gradients = context.options.shard == Shard::kOptimizer,
             .on_use_of_values =
                 watched(context, [this](size_t unit, uint64_t operation) { use_values(unit, operation); }),
             .on_use_of_gradients =
                 watched(context, [this](size_t unit, uint64_t) { use_gradients(unit); })}),
        stage_(context.options.shard),
        groups_(std::move(groups)),
        shards_(groups_.within ? *groups_.within : group_),
        prefetch_(static_cast<size_t>(context.options.prefetch_units)) {
    plan(context);
    const at::NoGradGuard no_grad;
    if (stage_ != Shard::kOptimizer) {
      gradient_shards_ = at::empty({shard_count_}, memory_.values({}).options());
      watch_.emplace();
    }
    if (stage_ == Shard::kParameters) {
      value_shards_ = at::empty({shard_count_}, memory_.values({}).options());
      gathers_over_ = shards_.duplicate();
    }
    for (size_t unit = 0; unit < units_.size(); ++unit) {
      broadcast_from_rank_0(group_, memory_.values(memory_.unit(unit)));
      if (stage_ != Shard::kParameters) continue;
      copy_to_shards(unit);
      memory_.memory_of_values(unit).release();
    }
    // What held the whole parameters is not needed again.
    if (stage_ != Shard::kOptimizer) ::malloc_trim(0);
  }

  ~Sharded() override {
    works_.clear();
    for (Unit& unit : units_) unit.gathers.clear();
  }

  void begin_step() override {
    rethrow();
    BucketStrategy::begin_step();
    arrived_ = 0;
    if (stage_ != Shard::kParameters) return;
    learns_ = uses_.empty();
    used_ = 0;
    current_.reset();
    in_use_.clear();
    in_step_ = true;
    // A step computes with the same values, whether these were read before it or not.
    if (std::ranges::any_of(parts_, &Part::narrow)) keep({});
    keep(learns_ ? std::span<const size_t>() : window(0));
  }

  void before_backward(bool last) override {
    rethrow();
    BucketStrategy::before_backward(last);
  }

  void combine() override {
    rethrow();
    filler_.finish();
    end_use();
    if (groups_.across || optimizer_.prepares_gradients()) arrive_before(works_.size());
    if (optimizer_.prepares_gradients()) prepare();
    for (size_t i = 0; i < works_.size(); ++i) {
      settle(i);
      apply_to_shard(i);
      if (stage_ != Shard::kParameters) {
        const Range bucket = filler_.buckets()[i].range;
        works_[i] =
            shards_.all_gather(buffer_of(memory_.values(parts_[i].shard)), buffer_of(memory_.values(bucket)));
      }
    }
    if (stage_ != Shard::kParameters) {
      for (size_t i = 0; i < works_.size(); ++i)
        wait_for(*works_[i], memory_.values(filler_.buckets()[i].range));
    }
    memory_.drop_spare();
    optimizer_.end_step();
    ++steps_;
  }

  /// Gathers all units in fp32, which stay until the next step.
  void finish() override {
    rethrow();
    if (stage_ != Shard::kParameters) return;
    for (size_t unit = 0; unit < units_.size(); ++unit) start_gather(unit, /*narrow=*/false);
    for (size_t unit = 0; unit < units_.size(); ++unit) finish_gather(unit);
  }

  void save(replica::State& state) override {
    state.add("shards", shard_begins());
    BucketStrategy::save(state);
  }

  void restore(const replica::State& state) override {
    if (state.numbers("shards") != shard_begins()) {
      throw Error("the saved shards are of other buckets",
                  "Use the --bucket-mb of the saved training, and as --unit-mb with --shard parameters.");
    }
    BucketStrategy::restore(state);
  }

  /// Time of the gathers within steps, and of these what computing waited for; on the CPU.
  std::vector<Measured> measured() const override {
    if (stage_ != Shard::kParameters || value_shards_.is_cuda()) return {};
    const std::lock_guard lock(times_->mutex);
    return {{.name = "gathers_s", .value = times_->gathers_s},
            {.name = "gathers_waited_for_s", .value = waited_s_}};
  }

  std::optional<replica::ShardUse> shard_use() const override {
    return replica::ShardUse{
        .parameters = static_cast<int64_t>(value_shards_.defined() ? value_shards_.nbytes() : 0),
        .gradients = static_cast<int64_t>(gradient_shards_.defined() ? gradient_shards_.nbytes() : 0),
        .most_gathered = most_gathered_};
  }

 private:
  /// A bucket's part that this rank keeps.
  struct Part {
    size_t unit = 0;
    /// In the numbering of the flat memory.
    Range shard;
    /// Its place among all shards of this rank.
    int64_t begin = 0;
    /// Values are gathered in bf16: those of matrices, for a network that narrows them itself.
    bool narrow = false;
  };

  struct Unit {
    /// Its buckets: indices into parts_.
    size_t first = 0, last = 0;
    /// Elements without the padding.
    int64_t count = 0;
    /// In flight, per bucket, and the memory that they write if it is not the unit's.
    std::vector<comm::WorkPtr> gathers;
    std::vector<at::Tensor> narrow;
  };

  using OnUse = std::function<void(size_t unit, uint64_t operation)>;

  static OnUse watched(const StrategyContext& context, OnUse call) {
    return context.options.shard == Shard::kOptimizer ? nullptr : std::move(call);
  }

  void plan(const StrategyContext& context) {
    const int64_t ranks = shards_.size();
    std::vector<Bucket> buckets;
    std::vector<Range> shards;
    const auto divide = [&](Range within, bool narrow) {
      for (Bucket& bucket : plan_buckets(memory_, context.options.unit_bytes(),
                                         {.within = within, .multiple_of = ranks, .small_last = false})) {
        const int64_t count = bucket.range.count() / ranks;
        const int64_t begin = bucket.range.begin + shards_.rank() * count;
        parts_.push_back({units_.size(), {begin, begin + count}, shard_count_, narrow});
        shards.push_back(parts_.back().shard);
        shard_count_ += count;
        buckets.push_back(std::move(bucket));
      }
    };
    for (size_t unit = 0; unit < memory_.unit_count(); ++unit) {
      const Range range = memory_.unit(unit);
      const size_t first = parts_.size();
      // Elements that would not divide by N go with the rest.
      int64_t count = 0, matrices = 0;
      for (const size_t index : memory_.order()) {
        const Range of_parameter = memory_.range_of(index);
        if (of_parameter.begin < range.begin || of_parameter.end > range.end) continue;
        count += of_parameter.count();
        const bool is_matrix = context.parameters.trainable()[index].value.dim() >= 2;
        if (context.narrows_matrices && is_matrix) matrices += of_parameter.count();
      }
      const int64_t border = range.begin + matrices / ranks * ranks;
      divide({range.begin, border}, /*narrow=*/true);
      divide({border, range.end}, /*narrow=*/false);
      units_.push_back({.first = first, .last = parts_.size(), .count = count});
    }
    filler_.set_plan(std::move(buckets));
    memory_.keep_momenta_of(std::move(shards));
  }

  // The shards of values, gradients and momenta.

  std::vector<size_t> shard_begins() const {
    std::vector<size_t> begins;
    for (const Part& part : parts_) begins.push_back(static_cast<size_t>(part.shard.begin));
    return begins;
  }
  static at::Tensor part_of(const at::Tensor& shards, const Part& part) {
    return shards.narrow(0, part.begin, part.shard.count());
  }
  at::Tensor value_shard(const Part& part) const {
    return value_shards_.defined() ? part_of(value_shards_, part) : memory_.values(part.shard);
  }
  at::Tensor gradient_shard(const Part& part) const {
    return gradient_shards_.defined() ? part_of(gradient_shards_, part) : memory_.gradients(part.shard);
  }
  void copy_to_shards(size_t unit) {
    for (size_t i = units_[unit].first; i < units_[unit].last; ++i)
      part_of(value_shards_, parts_[i]).copy_(memory_.values(parts_[i].shard));
  }

  void apply_to_shard(size_t i) {
    const ActivityScope applying(activities_, Activity::kApplying);
    replica::fused_sgd({value_shard(parts_[i])}, {gradient_shard(parts_[i])},
                       {memory_.momenta(parts_[i].shard)}, optimizer_, steps_ == 0);
  }

  /// Agrees with the other ranks, which have the other shards.
  void prepare() {
    std::vector<at::Tensor> shards;
    for (size_t i = 0; i < works_.size(); ++i) {
      settle(i);
      shards.push_back(gradient_shard(parts_[i]));
    }
    optimizer_.prepare(shards, agreement_over(shards_));
  }

  // Gradients on their way to the shards.

  comm::WorkPtr send(const Bucket& bucket) override {
    const size_t i = works_.size();
    // Bounds the gradients that are present at a time.
    if (stage_ != Shard::kOptimizer) {
      while (arrived_ < i && (parts_[arrived_].unit + 1 < parts_[i].unit || works_[arrived_]->test()))
        arrive_before(arrived_ + 1);
    }
    return shards_.reduce_scatter(buffer_of(memory_.gradients(bucket.range)),
                                  buffer_of(gradient_shard(parts_[i])), comm::ReduceOp::kSum);
  }

  /// Waits for the reduce-scatters of the buckets before `end`, and releases units that need no more.
  void arrive_before(size_t end) {
    for (; arrived_ < end; ++arrived_) {
      const Part& part = parts_[arrived_];
      const at::Tensor shard = gradient_shard(part);
      wait_for(*works_[arrived_], shard);
      if (groups_.across)
        works_[arrived_] = groups_.across->all_reduce(buffer_of(shard), comm::ReduceOp::kSum);
      if (stage_ != Shard::kOptimizer && arrived_ + 1 == units_[part.unit].last)
        memory_.memory_of_gradients(part.unit).release();
    }
  }

  /// Waits until a bucket's shard is the mean over all ranks.
  void settle(size_t i) {
    arrive_before(std::max(arrived_, i + 1));
    if (groups_.across) wait_for(*works_[i], gradient_shard(parts_[i]));
  }

  void use_gradients(size_t unit) {
    replica::ReleasableMemory& memory = memory_.memory_of_gradients(unit);
    if (memory.present()) return;
    memory.take();
    note_memory();
    const at::NoGradGuard no_grad;
    // Padding is sent too, and on a GPU gaps are.
    const at::Tensor gradients = memory_.gradients(memory_.unit(unit));
    gradients.slice(0, gradients.is_cuda() ? 0 : units_[unit].count).zero_();
  }

  // Units of values.

  /// The units used from the n-th use of the step on, as far ahead as they are gathered.
  std::span<const size_t> window(size_t n) const {
    return std::span(uses_).subspan(n, std::min(uses_.size() - n, 1 + prefetch_));
  }

  void use_values(size_t unit, uint64_t operation) {
    if (!in_step_) return;
    // Units of one operation stay until it is over.
    if (operation != operation_) in_use_.clear();
    operation_ = operation;
    in_use_.push_back(unit);
    if (unit == current_) return;
    current_ = unit;
    const at::NoGradGuard no_grad;
    try {
      rethrow();
      const ActivityScope waiting(activities_, Activity::kCommunicating);
      if (learns_) {
        uses_.push_back(unit);
        const size_t kept = std::min(uses_.size(), 1 + prefetch_);
        keep(std::span(uses_).last(kept));
      } else if (used_ == uses_.size() || uses_[used_] != unit) {
        throw Error(
            "the network used its parameters in another order than in the first step, by which they are "
            "gathered",
            "Use --shard gradients, which keeps all parameters.");
      } else {
        keep(window(used_));
      }
      ++used_;
      const double begin_s = now_s();
      finish_gather(unit);
      waited_s_ += now_s() - begin_s;
    } catch (...) {
      // LibTorch does not pass on what an observer of its operations throws.
      failure_ = std::current_exception();
      memory_.memory_of_values(unit).take();
    }
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

  /// Releases all units but these, and starts to gather those of them that are not present.
  void keep(std::span<const size_t> wanted) {
    for (size_t unit = 0; unit < units_.size(); ++unit) {
      if (std::ranges::find(wanted, unit) != wanted.end() ||
          std::ranges::find(in_use_, unit) != in_use_.end())
        continue;
      // A gather that nobody waited for, after a failure, still writes.
      finish_gather(unit);
      memory_.memory_of_values(unit).release();
    }
    for (const size_t unit : wanted) start_gather(unit);
    note_memory();
  }

  void end_use() {
    if (!in_step_) return;
    in_step_ = false;
    if (used_ != uses_.size()) {
      throw Error(
          "the network used fewer of its parameters than in the first step, by which they are gathered",
          "Use --shard gradients, which keeps all parameters.");
    }
    in_use_.clear();
    keep({});
  }

  void start_gather(size_t index, bool narrow = true) {
    Unit& unit = units_[index];
    replica::ReleasableMemory& memory = memory_.memory_of_values(index);
    if (memory.present()) return;
    memory.take();
    for (size_t i = unit.first; i < unit.last; ++i) {
      at::Tensor into = memory_.values(filler_.buckets()[i].range), from = part_of(value_shards_, parts_[i]);
      if (narrow && parts_[i].narrow) {
        from = from.to(at::kBFloat16);
        into = at::empty({into.numel()}, from.options());
        // The communicator keeps no tensors.
        unit.narrow.push_back(from);
        unit.narrow.push_back(into);
      }
      unit.gathers.push_back(gathers_over_->all_gather(buffer_of(from), buffer_of(into)));
      if (!in_step_ || into.is_cuda()) continue;
      // One follows the other.
      unit.gathers.back()->on_complete([times = times_, start_s = now_s()] {
        const std::lock_guard lock(times->mutex);
        const double end_s = now_s();
        times->gathers_s += end_s - std::max(start_s, std::exchange(times->last_s, end_s));
      });
    }
  }

  void finish_gather(size_t index) {
    Unit& unit = units_[index];
    size_t narrow = 0;
    for (size_t i = unit.first; i < unit.last && !unit.gathers.empty(); ++i) {
      const at::Tensor values = memory_.values(filler_.buckets()[i].range);
      wait_for(*unit.gathers[i - unit.first], values);
      if (!parts_[i].narrow || unit.narrow.empty()) continue;
      values.copy_(unit.narrow[narrow + 1]);
      narrow += 2;
    }
    unit.gathers.clear();
    unit.narrow.clear();
  }

  /// Notes how much of the units is present.
  void note_memory() {
    int64_t gathered = 0;
    for (size_t unit = 0; unit < units_.size(); ++unit) {
      const int64_t bytes = memory_.unit(unit).count() * int64_t{sizeof(float)};
      if (stage_ == Shard::kParameters && memory_.memory_of_values(unit).present()) gathered += bytes;
      if (memory_.memory_of_gradients(unit).present()) gathered += bytes;
    }
    most_gathered_ = std::max(most_gathered_, gathered);
  }

  const Shard stage_;
  const ShardGroups groups_;
  comm::Communicator& shards_;
  std::unique_ptr<comm::Communicator> gathers_over_;
  /// In the order of the filler's buckets.
  std::vector<Part> parts_;
  std::vector<Unit> units_;
  int64_t shard_count_ = 0;
  /// Undefined where the flat memory holds them.
  at::Tensor value_shards_, gradient_shards_;
  std::optional<replica::ThreadWatch> watch_;
  /// Number of this step's reduce-scatters that are complete.
  size_t arrived_ = 0;
  /// The units that a step uses in turn, from the first step on, and how many of these uses this one has had.
  std::vector<size_t> uses_;
  size_t used_ = 0;
  const size_t prefetch_;
  bool learns_ = false;
  /// Whether units come and go.
  bool in_step_ = false;
  /// The unit of the last use.
  std::optional<size_t> current_;
  /// The last operation that used a unit, and the units that it used.
  uint64_t operation_ = 0;
  std::vector<size_t> in_use_;
  int64_t most_gathered_ = 0;
  /// Written by the communicator's thread.
  struct GatherTimes {
    std::mutex mutex;
    double gathers_s = 0, last_s = 0;
  };
  const std::shared_ptr<GatherTimes> times_ = std::make_shared<GatherTimes>();
  double waited_s_ = 0;
  std::exception_ptr failure_;
};

}  // namespace

std::unique_ptr<Strategy> create_sharded(const StrategyContext& context) {
  ShardGroups groups = make_groups(context);
  return std::make_unique<Sharded>(context, std::move(groups), lay_out(context));
}

}  // namespace lockstep::strategies
