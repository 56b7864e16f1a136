#include "lockstep/train/rows/sweep.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/kernels/kernel_choice.h"
#include "lockstep/models/model.h"
#include "lockstep/train/rows/row_rules.h"
#include "lockstep/train/rows/tune.h"

namespace lockstep::train {
namespace {

constexpr double kUsualTuneBudgetS = 60;

template <typename T>
std::vector<T> without_repeats(std::vector<T> values) {
  std::vector<T> kept;
  for (T& value : values) {
    if (std::ranges::find(kept, value) == kept.end()) kept.push_back(std::move(value));
  }
  return kept;
}

struct Computation {
  std::string precision;
  std::string kernels;
};

/// Each precision with each choice of kernels.
std::vector<Computation> computations(const SweepOptions& options) {
  std::vector<std::string> choices = without_repeats(options.kernels);
  if (choices.empty() || choices.front() == kernels::kAuto)
    choices = {default_kernels(options.common.device)};
  std::vector<Computation> all;
  for (const std::string& precision : without_repeats(options.precisions)) {
    for (const std::string& choice : choices) all.push_back({precision, choice});
  }
  return all;
}

int image_size_of(const SweepOptions& options, const std::string& model) {
  const models::ModelInfo& info = models::info_of(model);
  if (options.common.image_size == 0) return static_cast<int>(info.image_size);
  if (info.file != nullptr) {
    throw ConfigError(fmt::format("--image-size is of no use to {}, whose inputs have fixed shapes", model),
                      "Leave it out, or export the network again with inputs of another size.");
  }
  models::check_image_size(model, info, options.common.image_size);
  return options.common.image_size;
}

constexpr const char* kAtenKernels = "aten";

/// Settings of a row that the network's file decides. Throws ConfigError where the user asked for others.
void fit_to_file(const network_file::NetworkFile& file, const SweepOptions& options, RowPlan& row) {
  const auto refuse = [&](const std::string& what, const std::string& advice) {
    throw ConfigError(fmt::format("{} {}", file.path, what), advice);
  };
  if (options.common.device != kCpu) {
    if (options.common.cuda_graph)
      refuse("runs step by step, not with --cuda-graph", "Leave --cuda-graph out.");
    if (row.input != "device")
      refuse(fmt::format("takes no --input {} on GPUs", row.input), "Use --input device.");
  }
  const bool has_tensors = row.input == "device" || row.input == "dataset" || row.input == "zmq";
  if (!has_tensors && !file.labelled_images()) {
    refuse(fmt::format(
               "takes tensors that --input {} does not have, which makes square images with a label each",
               row.input),
           "Use --input device, dataset or zmq.");
  }
  if (!options.kernels.empty() && row.kernels != kAtenKernels && row.kernels != kernels::kAuto) {
    refuse(fmt::format("computes with PyTorch's operations, not with --kernels {}", row.kernels),
           "Leave --kernels out.");
  }
  row.unit = file.unit;
  row.units_per_sample = file.units_per_sample;
  row.kernels = kAtenKernels;
  row.memory_format = file.channels_last ? "channels_last" : "contiguous";
}

/// A graph is for the current GPU of a thread, not for several with copies between them.
void check_gpus_of_file(const network_file::NetworkFile& file, const RowPlan& row) {
  if (row.device == kCpu || row.ranks == 1 || !traits_of(row).one_process) return;
  throw ConfigError(
      fmt::format("{} cannot train on several GPUs of one process, as {} does", file.path, row.strategy),
      "Use ddp, or --device cpu.");
}

/// A step of a traced network says itself which parameters it is about to use.
void check_shards_of_file(const network_file::NetworkFile& file, const RowPlan& row) {
  const bool is_traced = !file.hash.empty();
  if (row.parsed_options.shard != strategies::Shard::kParameters || !is_traced || file.announces_uses) return;
  throw ConfigError(
      fmt::format("{} does not tell when it uses which parameters, by which --shard parameters gathers them",
                  file.path),
      "Export the network again with the Python package of this lockstep, or use --shard gradients.");
}

int part_of(int global_batch, int ranks, int accumulate) {
  const int parts = ranks * accumulate;
  if (global_batch % parts == 0) return global_batch / parts;
  const std::string times = accumulate > 1 ? fmt::format(" x --accumulate {}", accumulate) : "";
  throw ConfigError(fmt::format("--global-batch {} cannot be split into equal parts for {} ranks{}",
                                global_batch, ranks, times),
                    fmt::format("Use a multiple of every number of ranks{}, {} for example.", times,
                                (global_batch / parts + 1) * parts));
}

/// Adds the rows of one model, batch, precision and choice of kernels, which `prototype` holds.
void plan_group(const SweepOptions& options, const RowPlan& prototype, std::vector<RowPlan>& rows) {
  const auto wanted = [&](const char* control) {
    return options.controls || std::ranges::find(options.strategies, control) != options.strategies.end();
  };
  const auto add = [&](const std::string& name, int ranks, double bucket_mb) {
    RowPlan& row = rows.emplace_back(prototype);
    const auto [strategy, given] = strategies::resolve(name, options.strategy_options);
    row.strategy = strategy;
    row.ranks = ranks;
    row.bucket_mb = bucket_mb;
    row.strategy_options = strategies::options_text(given, strategy);
    row.parsed_options = strategies::options_of(strategy, given);
    row.pacing.period = std::max(1, traits_of(row).steps_alone);
    if (row.global_batch > 0) row.batch_per_rank = part_of(row.global_batch, ranks, row.accumulate);
    const models::ModelInfo& info = models::info_of(row.model);
    if (info.file != nullptr) {
      info.file->check_step(row.batch_per_rank, row.precision, row.device);
      check_gpus_of_file(*info.file, row);
      check_shards_of_file(*info.file, row);
    }
    const bool tunes = !options.tune.empty() && has_cap_to_tune(row);
    if (tunes) row.tune_budget_s = options.tune_budget_s.value_or(kUsualTuneBudgetS);
  };
  // Without buckets one row is enough, whatever caps are compared.
  const double any_cap = options.bucket_mb.front();
  if (wanted(results::kSingle)) add(results::kSingle, 1, any_cap);
  for (const std::string& strategy : options.strategies) {
    if (results::role_of(strategy) != results::Role::kStrategy) continue;
    const auto [real, given] = strategies::resolve(strategy, options.strategy_options);
    const bool has_buckets =
        strategies::registry().get(real).traits(strategies::options_of(real, given)).has_buckets;
    for (const double bucket_mb : has_buckets ? options.bucket_mb : std::vector{any_cap}) {
      for (const int ranks : options.ranks) add(strategy, ranks, bucket_mb);
    }
  }
  for (const int ranks : options.ranks) {
    // Alone, `independent` is `single`.
    if (ranks > 1 && wanted(results::kIndependent)) add(results::kIndependent, ranks, any_cap);
  }
}

/// Fills in RowPlan::distinction from the settings that differ between rows of one label.
void distinguish(std::vector<RowPlan>& rows) {
  std::map<std::string, std::vector<RowPlan*>> by_label;
  for (RowPlan& row : rows) by_label[row.label()].push_back(&row);
  for (const auto& [label, alike] : by_label) {
    for (const results::Setting& setting : results::kSettings) {
      if (!setting.is_attribute()) continue;
      if (std::ranges::all_of(alike, [&](const RowPlan* row) { return setting.same(*row, *alike.front()); }))
        continue;
      for (RowPlan* row : alike) {
        const results::Setup& setup = *row;
        row->distinction += (row->distinction.empty() ? "" : ", ") + setting.phrase(setup);
      }
    }
  }
}

}  // namespace

std::vector<std::string> spelled_out(const std::vector<std::string>& asked) {
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
  return without_repeats(std::move(names));
}

std::string InputFlags::text() const {
  std::string text;
  if (prefetch) text += fmt::format(" --prefetch {}", *prefetch);
  if (workers) text += fmt::format(" --input-workers {}", *workers);
  return text.empty() ? text : text.substr(1);
}

std::string RowPlan::label() const {
  return fmt::format("{} {} {} {} x {}", model, strategy, ranks, ranks == 1 ? "rank" : "ranks",
                     batch_per_rank) +
         (accumulate > 1 ? fmt::format(" x {}", accumulate) : "") +
         (distinction.empty() ? "" : ", " + distinction);
}

std::vector<RowPlan> plan_rows(const SweepOptions& asked) {
  check_sweep(asked);
  SweepOptions options = asked;
  options.strategies = spelled_out(options.strategies);
  strategies::check_options(options.strategy_options, options.strategies);
  options.ranks = without_repeats(options.ranks);
  std::ranges::sort(options.ranks);
  if (options.ranks.empty()) options.ranks = {1};
  std::vector<RowPlan> rows;
  for (const std::string& model : without_repeats(options.models)) {
    const models::ModelInfo& info = models::info_of(model);
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
        if (info.file != nullptr) fit_to_file(*info.file, options, prototype);
        prototype.parameters = info.parameters;
        prototype.parameter_tensors = info.parameter_tensors;
        prototype.largest_parameter = info.largest_parameter;
        // At other image sizes they are not known without running the network.
        prototype.multiply_adds = image_size == info.image_size ? info.multiply_adds : 0;
        prototype.pacing = options.pacing;
        prototype.verify_every = options.verify_every.value_or(0);
        plan_group(options, prototype, rows);
      }
    }
  }
  check_planned(options, rows);
  distinguish(rows);
  return rows;
}

std::optional<size_t> baseline_after(const std::vector<RowPlan>& rows, size_t index) {
  const auto is_baseline = [&](size_t row) { return rows[row].role() == results::Role::kBaseline; };
  if (is_baseline(index) || (index + 1 < rows.size() && !is_baseline(index + 1))) return std::nullopt;
  // Another process may send as many batches as the rows need, and no more.
  if (!rows[index].input_flags.address.empty()) return std::nullopt;
  // Every baseline is the first row of its network and settings.
  size_t first = index;
  while (first > 0 && !is_baseline(first)) --first;
  return is_baseline(first) ? std::optional(first) : std::nullopt;
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
