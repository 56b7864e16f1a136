#include "lockstep/train/rows/measured_row.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "lockstep/base/plain_text.h"
#include "lockstep/results/record/machine_warnings.h"
#include "lockstep/results/record/resources.h"
#include "lockstep/results/record/summarize.h"

namespace lockstep::train {
namespace {

results::ReplicaMemory memory_of(const std::vector<replica::MemoryUse>& ranks) {
  const auto over_ranks = [&](const auto& bytes_of) {
    results::ByteRange range{bytes_of(ranks.front()), bytes_of(ranks.front())};
    for (const replica::MemoryUse& rank : ranks) {
      range.least = std::min(range.least, bytes_of(rank));
      range.most = std::max(range.most, bytes_of(rank));
    }
    return range;
  };
  using replica::MemoryUse;
  return {.parameters = over_ranks([](const MemoryUse& rank) { return rank.parameters; }),
          .gradients = over_ranks([](const MemoryUse& rank) { return rank.gradients; }),
          .momenta = over_ranks([](const MemoryUse& rank) { return rank.momenta; }),
          .buffers = over_ranks([](const MemoryUse& rank) { return rank.buffers; }),
          .total = over_ranks([](const MemoryUse& rank) { return rank.total(); })};
}

std::vector<results::InputQueue> queues_of(const std::vector<std::vector<feed::QueueUse>>& ranks) {
  std::vector<results::InputQueue> all;
  for (size_t i = 0; i < ranks.front().size(); ++i) {
    const feed::QueueUse& any = ranks.front()[i];
    results::InputQueue queue{.name = any.name, .capacity = any.capacity, .producers = any.producers};
    double ready = 0, made = 0, made_s = 0;
    for (const std::vector<feed::QueueUse>& rank : ranks) {
      const feed::QueueUse& use = rank[i];
      queue.batches += use.batches;
      queue.empty += use.empty;
      queue.empty_s += use.empty_s;
      queue.full += use.full;
      queue.full_s += use.full_s;
      ready += static_cast<double>(use.ready);
      made += static_cast<double>(use.made);
      made_s += use.made_s;
      if (use.elapsed_s <= 0) continue;
      const double batches_per_s = static_cast<double>(use.batches) / use.elapsed_s;
      queue.images_per_s += batches_per_s * static_cast<double>(use.images_per_batch);
      queue.gb_per_s += batches_per_s * static_cast<double>(use.bytes_per_batch) / 1e9;
    }
    if (queue.batches > 0) queue.depth = ready / static_cast<double>(queue.batches);
    if (made > 0) queue.producer_s = made_s / made;
    all.push_back(std::move(queue));
  }
  return all;
}

/// A warning for every rank that was sent batches by strangers.
std::vector<results::Warning> stranger_warnings(const std::vector<std::vector<feed::QueueUse>>& ranks) {
  std::vector<results::Warning> warnings;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const feed::QueueUse& use : ranks[rank]) {
      if (use.refused == 0) continue;
      warnings.push_back(
          {fmt::format("Rank {} refused {} of what strangers sent it; the first: {}.", rank, use.refused,
                       printable(use.first_refused)),
           "Set LOCKSTEP_TOKEN for ranks and producers, or use an address of the form ipc:///tmp/NAME."});
    }
  }
  return warnings;
}

/// The steps of a breakdown's run: of the job (coupled), or means over the ranks.
std::vector<double> broken_down_steps(const std::vector<measure::RankStamps>& ranks, bool coupled) {
  std::vector<double> step_s;
  for (size_t i = 0; i < ranks.front().steps.size(); ++i) {
    double longest_s = 0, sum_s = 0;
    for (const measure::RankStamps& rank : ranks) {
      const double own_s = rank.steps[i].end_s - rank.steps[i].begin_s;
      longest_s = std::max(longest_s, own_s);
      sum_s += own_s;
    }
    step_s.push_back(coupled ? longest_s : sum_s / static_cast<double>(ranks.size()));
  }
  return step_s;
}

void add_warnings(results::Run& run, std::vector<results::Warning> warnings) {
  std::ranges::move(warnings, std::back_inserter(run.warnings));
}

/// Adds what explains the times of a run.
void explain(results::Run& run, const RowSamples& samples) {
  for (const strategies::Measured& measured : samples.measured) {
    run.own_measures.push_back({measured.name, measured.value, strategies::to_string(measured.over)});
  }
  run.memory = memory_of(samples.memory);
  run.input_queues = queues_of(samples.input_queues);
  run.resources = results::resources_of(samples.use, run.threads_per_rank);
  run.gpu_use = samples.gpus;
  run.device_settings = samples.device_settings;
  add_warnings(run, stranger_warnings(samples.input_queues));
  add_warnings(run, results::resource_warnings(samples.use));
  add_warnings(run, results::gpu_warnings(samples.gpus));
  add_warnings(run, results::series_warnings(run));
  add_warnings(run, results::rank_warnings(run));
}

}  // namespace

results::Run run_of(const MeasuredRow& measured) {
  const auto& [row, samples, stamps, kernels, tuning, limit_images_per_s, layers] = measured;
  results::Run run{row};
  run.coupled = traits_of(row).coupled;
  run.loss_first = samples.loss_first;
  run.loss_last = samples.loss_last;
  run.warmup_choice = samples.warmup_choice;
  run.stopped = samples.stopped;
  run.unsettled = samples.unsettled;
  run.tuning = tuning;
  run.limit_images_per_s = limit_images_per_s;
  run.layers = layers;
  if (row.verify_every > 0) {
    run.replica_checks = results::ReplicaChecks{.every = row.verify_every,
                                                .checks = samples.replica_checks,
                                                .not_applicable = samples.why_not_compared};
  }
  results::summarize(run, {.warmup_s = samples.warmup_s,
                           .step_s = samples.step_s,
                           .start_s = samples.start_s,
                           .elapsed_s = std::nullopt});
  explain(run, samples);
  if (!stamps.empty()) {
    run.breakdown = measure::break_down(stamps);
    add_warnings(run, results::breakdown_warnings(run, broken_down_steps(stamps, run.coupled)));
  }
  return run;
}

}  // namespace lockstep::train
