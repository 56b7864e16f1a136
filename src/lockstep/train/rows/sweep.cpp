#include "lockstep/train/rows/sweep.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/registry.h"
#include "lockstep/inputs/input.h"
#include "lockstep/kernels/kernel_choice.h"
#include "lockstep/models/model.h"
#include "lockstep/replica/precision.h"
#include "lockstep/train/rows/agreement.h"
#include "lockstep/train/rows/device_rules.h"
#include "lockstep/train/rows/row_input.h"
#include "lockstep/train/rows/tune.h"

namespace lockstep::train {
namespace {

constexpr const char* kAllStrategies = "all";

/// `all` stands for every strategy but the two controls.
std::vector<std::string> with_all_spelled_out(const std::vector<std::string>& asked) {
  std::vector<std::string> names;
  for (const std::string& name : asked) {
    if (name != kAllStrategies) {
      names.push_back(name);
      continue;
    }
    for (const std::string& known : strategies::registry().names()) {
      if (results::role_of(known) == results::Role::kStrategy) names.push_back(known);
    }
  }
  return names;
}

void require_positive(const char* flag, double value) {
  if (value > 0) return;
  throw ConfigError(fmt::format("{} must be greater than 0, not {:g}", flag, value),
                    "'lockstep bench --help' shows every flag with its default.");
}

template <typename T>
std::vector<T> without_repeats(std::vector<T> values) {
  std::vector<T> kept;
  for (T& value : values) {
    if (std::find(kept.begin(), kept.end(), value) == kept.end()) kept.push_back(std::move(value));
  }
  return kept;
}

void check_pacing(const PacingOptions& pacing) {
  if (pacing.steps) require_positive("--steps", *pacing.steps);
  if (pacing.warmup_steps && *pacing.warmup_steps < 0) {
    throw ConfigError(fmt::format("--warmup must not be negative, but is {}", *pacing.warmup_steps));
  }
  if (!(pacing.precision_target > 0 && pacing.precision_target < 1)) {
    throw ConfigError(fmt::format("--precision-target must lie between 0 % and 100 %, not {:g} %",
                                  100 * pacing.precision_target),
                      "Half the width of the interval of the median, as a share of it: 2% is the default.");
  }
  require_positive("--max-time", pacing.max_time_s);
}

constexpr double kUsualTuneBudget = 60;

void check_tuning(const SweepOptions& options) {
  if (options.tune.empty()) {
    if (!options.tune_budget_s) return;
    throw ConfigError("--tune-budget means nothing without --tune", "Add --tune buckets.");
  }
  const Registry<bool> known("thing to tune", "lockstep bench --help", {{"buckets", true}});
  known.get(options.tune);
  if (options.tune_budget_s) require_positive("--tune-budget", *options.tune_budget_s);
  if (options.bucket_mb != SweepOptions().bucket_mb) {
    throw ConfigError("--tune buckets and --bucket-mb exclude each other",
                      "--tune buckets finds the cap; --bucket-mb says what it is.");
  }
}

void check_kernels(const std::string& name) {
  if (kernels::parse_kernels(name) == kernels::KernelChoice::kAten) return;
  const std::string why = kernels::why_no_fused_kernels();
  if (!why.empty()) {
    throw BackendMissing(fmt::format("--kernels {} cannot be had: {}", name, why),
                         kernels::kNoFusedKernelsAdvice);
  }
}

void check_values(const SweepOptions& options) {
  for (const int batch : options.batches) require_positive("--batch", batch);
  for (const int ranks : options.ranks) require_positive("--ranks", ranks);
  for (const double bucket : options.bucket_mb) require_positive("--bucket-mb", bucket);
  for (const int batch : options.global_batches) require_positive("--global-batch", batch);
  require_positive("--accumulate", options.common.accumulate);
  check_pacing(options.pacing);
  if (!(options.common.learning_rate >= 0)) {
    throw ConfigError(fmt::format("--lr must not be negative, but is {:g}", options.common.learning_rate),
                      "0 leaves the update out.");
  }
  if (options.common.nesterov && options.common.momentum == 0) {
    throw ConfigError("--nesterov needs a momentum, but --momentum is 0",
                      "Leave --nesterov out, or give a --momentum greater than 0.");
  }
  check_tuning(options);
  if (options.verify_every) require_positive("--verify-every", *options.verify_every);
  if (!options.batches.empty() && !options.global_batches.empty()) {
    throw ConfigError("--batch (per rank) and --global-batch (of the whole job) exclude each other",
                      "Use --batch for weak scaling, --global-batch for strong scaling.");
  }
  if (options.common.image_size < 0) {
    throw ConfigError(fmt::format("--image-size must be greater than 0, not {}", options.common.image_size));
  }
  for (const std::string& name : options.strategies) {
    if (name != kAllStrategies) strategies::registry().get(name);
  }
  const auto device = options.common.device == kCuda ? c10::DeviceType::CUDA : c10::DeviceType::CPU;
  for (const std::string& name : options.precisions) replica::check_precision(name, device);
  check_device_rules(options);
  for (const std::string& name : options.kernels) check_kernels(name);
  inputs::registry().get(options.common.input);
  parse_memory_format(options.common.memory_format);
}

struct Computation {
  std::string precision;
  std::string kernels;
};

/// Each precision with each choice of kernels.
std::vector<Computation> computations(const SweepOptions& options) {
  std::vector<std::string> kernels = without_repeats(options.kernels);
  if (kernels.empty()) kernels = {default_kernels(options.common.device)};
  std::vector<Computation> all;
  for (const std::string& precision : without_repeats(options.precisions)) {
    for (const std::string& choice : kernels) all.push_back({precision, choice});
  }
  return all;
}

int image_size_of(const SweepOptions& options, const std::string& model) {
  const models::ModelInfo& info = models::registry().get(model);
  if (options.common.image_size == 0) return static_cast<int>(info.image_size);
  models::check_image_size(model, info, options.common.image_size);
  return options.common.image_size;
}

/// The rows of one model, batch, precision and choice of kernels.
class GroupPlanner {
 public:
  GroupPlanner(const SweepOptions& options, RowPlan prototype, std::vector<RowPlan>& rows)
      : options_(options), prototype_(std::move(prototype)), rows_(rows) {}

  void plan() {
    const bool single_asked = asked(results::kSingle);
    if (options_.controls || single_asked) add(results::kSingle, 1, options_.bucket_mb.front());
    for (const std::string& strategy : options_.strategies) {
      if (results::role_of(strategy) != results::Role::kStrategy) continue;
      for (const double bucket : options_.bucket_mb) {
        for (const int ranks : options_.ranks) add(strategy, ranks, bucket);
      }
    }
    for (const int ranks : options_.ranks) {
      // Alone, `independent` is `single`.
      if (ranks > 1 && (options_.controls || asked(results::kIndependent))) {
        add(results::kIndependent, ranks, options_.bucket_mb.front());
      }
    }
  }

 private:
  bool asked(const std::string& strategy) const {
    return std::find(options_.strategies.begin(), options_.strategies.end(), strategy) !=
           options_.strategies.end();
  }

  void add(const std::string& strategy, int ranks, double bucket_mb) {
    RowPlan row = prototype_;
    row.strategy = strategy;
    row.ranks = ranks;
    row.bucket_mb = bucket_mb;
    row.strategy_options = strategies::options_text(options_.strategy_options, strategy);
    if (row.global_batch > 0) row.batch_per_rank = part_of(row.global_batch, ranks, row.accumulate);
    rows_.push_back(std::move(row));
  }

  static int part_of(int global_batch, int ranks, int accumulate) {
    const int parts = ranks * accumulate;
    if (global_batch % parts == 0) return global_batch / parts;
    const std::string times = accumulate > 1 ? fmt::format(" x --accumulate {}", accumulate) : "";
    throw ConfigError(fmt::format("--global-batch {} cannot be split into equal parts for {} ranks{}",
                                  global_batch, ranks, times),
                      fmt::format("Use a multiple of every number of ranks{}, {} for example.", times,
                                  (global_batch / parts + 1) * parts));
  }

  const SweepOptions& options_;
  RowPlan prototype_;
  std::vector<RowPlan>& rows_;
};

}  // namespace

std::string InputFlags::text() const {
  std::string text;
  if (prefetch) text += fmt::format(" --prefetch {}", *prefetch);
  if (workers) text += fmt::format(" --input-workers {}", *workers);
  return text.empty() ? text : text.substr(1);
}

std::string RowPlan::label() const {
  return fmt::format("{} {} {} {} x {}", model, strategy, ranks, ranks == 1 ? "rank" : "ranks",
                     batch_per_rank) +
         (accumulate > 1 ? fmt::format(" x {}", accumulate) : "");
}

std::vector<RowPlan> plan_rows(const SweepOptions& asked) {
  check_values(asked);
  SweepOptions options = asked;
  options.strategies = without_repeats(with_all_spelled_out(options.strategies));
  options.ranks = without_repeats(options.ranks);
  std::sort(options.ranks.begin(), options.ranks.end());
  if (options.ranks.empty()) options.ranks = {1};
  std::vector<RowPlan> rows;
  for (const std::string& model : without_repeats(options.models)) {
    const models::ModelInfo& info = models::registry().get(model);
    const int image_size = image_size_of(options, model);
    const bool strong = !options.global_batches.empty();
    std::vector<int> batches = without_repeats(strong ? options.global_batches : options.batches);
    if (batches.empty()) batches = {info.default_batch};
    for (const int batch : batches) {
      for (const auto& [precision, kernels] : computations(options)) {
        RowPlan prototype{options.common};
        prototype.model = model;
        prototype.batch_per_rank = batch;
        prototype.global_batch = strong ? batch : 0;
        prototype.precision = precision;
        prototype.kernels = kernels;
        prototype.input_options = options.input_flags.text();
        prototype.input_flags = options.input_flags;
        prototype.image_size = image_size;
        prototype.parameters = info.parameters;
        // At other image sizes they are not known without running the network.
        prototype.multiply_adds = image_size == info.image_size ? info.multiply_adds : 0;
        prototype.parsed_options = strategies::parse_options(options.strategy_options, options.strategies);
        prototype.pacing = options.pacing;
        prototype.verify_every = options.verify_every.value_or(0);
        GroupPlanner(options, std::move(prototype), rows).plan();
      }
    }
  }
  if (rows.empty()) {
    throw ConfigError(
        "these flags leave nothing to measure",
        "'independent' needs at least 2 ranks; add one to --ranks, or leave --no-controls out.");
  }
  check_inputs(rows);
  if (!options.tune.empty()) {
    for (RowPlan& row : rows) {
      if (has_cap_to_tune(row)) row.tune_budget_s = options.tune_budget_s.value_or(kUsualTuneBudget);
    }
    if (std::ranges::none_of(rows, has_cap_to_tune)) {
      throw ConfigError("--tune buckets finds nothing to tune: none of these rows sends buckets",
                        "Give 2 ranks or more, and ddp, replicated, sharded or parameter_server.");
    }
  }
  const bool none_comparable = std::ranges::all_of(rows, [](const RowPlan& row) {
    return !why_not_comparable(traits_of(row), training_ranks(row)).empty();
  });
  if (options.verify_every && none_comparable) {
    throw ConfigError(
        "--verify-every finds nothing to compare: none of these rows has replicas that are equal",
        "Give 2 ranks or more, and a strategy that keeps replicas equal, as ddp does.");
  }
  return rows;
}

strategies::Traits traits_of(const RowPlan& row) {
  return strategies::registry().get(row.strategy).traits(row.parsed_options);
}

int training_ranks(const RowPlan& row) {
  return traits_of(row).one_process ? 1 : row.ranks;
}

int most_ranks(const std::vector<RowPlan>& rows) {
  int most = 1;
  for (const RowPlan& row : rows) most = std::max(most, row.ranks);
  return most;
}

}  // namespace lockstep::train
