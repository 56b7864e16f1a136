#include "lockstep/train/row_runner.h"

#include <algorithm>
#include <span>

#include "lockstep/train/memory_format.h"

namespace lockstep::train {
namespace {

/// values[rank] on rank 0, empty on the others. Collective.
std::vector<std::vector<double>> gather(const std::vector<double>& values, comm::Communicator* group) {
  if (group == nullptr) return {values};
  const auto size = static_cast<size_t>(group->size());
  auto count = static_cast<int64_t>(values.size());
  std::vector<int64_t> counts(size);
  group->all_gather(comm::host_buffer(&count, 1), comm::host_buffer(counts.data(), size))->wait();
  const auto most = static_cast<size_t>(*std::max_element(counts.begin(), counts.end()));
  std::vector<double> mine(values);
  mine.resize(most);
  std::vector<double> all(most * size);
  group->all_gather(comm::host_buffer(mine.data(), most), comm::host_buffer(all.data(), all.size()))->wait();
  std::vector<std::vector<double>> by_rank;
  for (size_t rank = 0; rank < size; ++rank) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * most);
    by_rank.emplace_back(begin, begin + counts[rank]);
  }
  return by_rank;
}

double mean_over_ranks(double value, comm::Communicator* group) {
  if (group == nullptr) return value;
  group->all_reduce(comm::host_buffer(&value, 1), comm::ReduceOp::kSum)->wait();
  return value / group->size();
}

}  // namespace

std::optional<RowSamples> run_row(const RowPlan& row, comm::Communicator* group, launch::Progress& progress) {
  const int rank = group == nullptr ? 0 : group->rank();
  const at::MemoryFormat memory_format = parse_memory_format(row.memory_format);
  const models::ModelInfo& model_info = models::registry().get(row.model);
  const strategies::StrategyInfo& strategy_info = strategies::registry().get(row.strategy);

  const std::unique_ptr<models::Model> model =
      model_info.create({.seed = row.seed, .memory_format = memory_format});
  const std::unique_ptr<inputs::Input> input =
      inputs::registry().get(row.input).create({.batch = row.batch_per_rank,
                                                .channels = model_info.channels,
                                                .image_size = row.image_size,
                                                .classes = model_info.classes,
                                                .seed = row.seed,
                                                .rank = rank,
                                                .ranks = row.ranks,
                                                .memory_format = memory_format});
  replica::Sgd optimizer(
      model->parameters().tensors(),
      {.learning_rate = row.learning_rate, .momentum = row.momentum, .weight_decay = row.weight_decay});
  const std::unique_ptr<strategies::Strategy> strategy =
      strategy_info.create({.parameters = model->parameters(),
                            .optimizer = optimizer,
                            .communicator = strategy_info.traits.communicates ? group : nullptr,
                            .options = {.bucket_mb = row.bucket_mb}});

  const StepLoopOptions loop_options{.warmup_steps = row.warmup_steps,
                                     .steps = row.steps,
                                     .precision = replica::parse_precision(row.precision),
                                     .seed = row.seed,
                                     .coupled = strategy_info.traits.coupled};
  const StepLoopResult own = run_steps({*model, *input, *strategy, optimizer, group}, loop_options, progress);

  RowSamples samples{.warmup_s = gather(own.warmup_s, group),
                     .step_s = gather(own.step_s, group),
                     .loss_first = mean_over_ranks(own.loss_first, group),
                     .loss_last = mean_over_ranks(own.loss_last, group)};
  if (rank != 0) return std::nullopt;
  return samples;
}

}  // namespace lockstep::train
