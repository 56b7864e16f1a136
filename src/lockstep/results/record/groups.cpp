#include "lockstep/results/record/groups.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/results/record/baseline.h"

namespace lockstep::results {
namespace {

bool same_attributes(const Run& a, const Run& b) {
  return std::ranges::all_of(
      attributes(), [&](const Attribute& attribute) { return attribute.text(a) == attribute.text(b); });
}

std::string strategy(const Run& run) {
  return run.strategy;
}
std::string backend(const Run& run) {
  return run.backend;
}
std::string precision(const Run& run) {
  return run.precision;
}
std::string kernels(const Run& run) {
  return run.kernels;
}
std::string memory_format(const Run& run) {
  return run.memory_format;
}
std::string device(const Run& run) {
  return run.device;
}
std::string cuda_graph(const Run& run) {
  return run.cuda_graph ? "on" : "off";
}
std::string input(const Run& run) {
  return run.input;
}
std::string input_options(const Run& run) {
  return run.input_options;
}
std::string image_size(const Run& run) {
  return fmt::format("{}", run.image_size);
}
std::string bucket(const Run& run) {
  // Each row of a sweep may have found another.
  if (run.tuning) return "tuned";
  return fmt::format("{} MB", run.bucket_mb);
}
std::string strategy_options(const Run& run) {
  return run.strategy_options;
}
std::string accumulation(const Run& run) {
  return fmt::format("{}", run.accumulate);
}
std::string threads(const Run& run) {
  return fmt::format("{}", run.threads_per_rank);
}

}  // namespace

const std::vector<Attribute>& attributes() {
  static const std::vector<Attribute> kAll{
      {"strategy", strategy, strategy},
      {"backend", backend, backend, true},
      {"precision", precision, precision},
      {"kernels", kernels, [](const Run& run) { return fmt::format("{} kernels", run.kernels); }},
      {"memory format", memory_format, memory_format},
      {"device", device, device},
      {"CUDA graph", cuda_graph,
       [](const Run& run) { return std::string(run.cuda_graph ? "CUDA graph" : "no CUDA graph"); }},
      {"input", input, [](const Run& run) { return fmt::format("input {}", run.input); }},
      {"input options", input_options,
       [](const Run& run) {
         return run.input_options.empty() ? "no flags of the input" : run.input_options;
       }},
      {"image size", image_size, [](const Run& run) { return fmt::format("images of {}", run.image_size); }},
      {"bucket", bucket,
       [](const Run& run) {
         return run.tuning ? "tuned buckets" : fmt::format("buckets of {}", bucket(run));
       },
       true},
      {"strategy options", strategy_options,
       [](const Run& run) { return run.strategy_options.empty() ? "no options" : run.strategy_options; },
       true},
      {"accumulation", accumulation,
       [](const Run& run) {
         return run.accumulate == 1 ? "no accumulation"
                                    : fmt::format("gradients of {} batches accumulated", run.accumulate);
       }},
      {"threads", threads,
       [](const Run& run) { return fmt::format("{} threads per rank", run.threads_per_rank); }},
  };
  return kAll;
}

std::vector<const Attribute*> varying(const std::vector<const Run*>& runs) {
  std::vector<const Attribute*> found;
  for (const Attribute& attribute : attributes()) {
    const bool varies = std::ranges::any_of(
        runs, [&](const Run* run) { return attribute.text(*run) != attribute.text(*runs.front()); });
    if (varies) found.push_back(&attribute);
  }
  return found;
}

std::string batch_text(const ModelGroup& group) {
  if (group.global_batch > 0) return fmt::format("global batch size {}", group.global_batch);
  return fmt::format("batch size {}", group.batch_per_rank);
}

std::vector<ModelGroup> group_by_model(const RunRecord& record) {
  std::vector<ModelGroup> groups;
  for (const Run& run : record.runs) {
    auto group = std::ranges::find_if(groups, [&](const ModelGroup& known) {
      return known.model == run.model && known.global_batch == run.global_batch &&
             (run.global_batch > 0 || known.batch_per_rank == run.batch_per_rank);
    });
    if (group == groups.end())
      group = groups.insert(groups.end(), {run.model, run.batch_per_rank, run.global_batch, {}, {}});
    (is_control(record, run) ? group->controls : group->runs).push_back(&run);
  }
  return groups;
}

std::vector<std::vector<const Run*>> group_by_attributes(const std::vector<const Run*>& runs) {
  std::vector<std::vector<const Run*>> groups;
  for (const Run* run : runs) {
    auto group = std::ranges::find_if(
        groups, [&](const auto& known) { return same_attributes(*known.front(), *run); });
    if (group == groups.end()) group = groups.insert(groups.end(), std::vector<const Run*>());
    group->push_back(run);
  }
  for (auto& group : groups) std::ranges::stable_sort(group, {}, [](const Run* run) { return run->ranks; });
  return groups;
}

}  // namespace lockstep::results
