#include "lockstep/predict/jobs/strategy_shape.h"

#include "lockstep/results/record/setup.h"

namespace lockstep::predict {
namespace {

bool has(const std::string& options, const char* option) {
  return options.find(option) != std::string::npos;
}

}  // namespace

std::optional<StrategyShape> strategy_shape(const std::string& strategy, const std::string& options) {
  using enum CollectiveKind;
  if (strategy == results::kSingle || strategy == results::kIndependent)
    return StrategyShape{.coupled = strategy == results::kSingle};
  if (strategy == "ddp") return StrategyShape{.gradients = kAllReduce};
  if (strategy == "horovod") return StrategyShape{.gradients = kAllReduce, .has_buckets = false};
  if (strategy == "bsp")
    return StrategyShape{
        .gradients = kAllReduce, .overlaps = false, .per_tensor = true, .has_buckets = false};
  if (strategy == "data_parallel")
    return StrategyShape{.one_process = true, .has_buckets = false, .has_wire = false};
  StrategyShape shape{.overlaps = !has(options, "--overlap off"), .updates_on_arrival = true};
  if (strategy == "replicated") {
    shape.gradients = kAllReduce;
  } else if (strategy == "sharded") {
    shape.has_wire = false;
    shape.gradients = kReduceScatter;
    shape.values = kAllGather;
    shape.divides_update = true;
  } else if (strategy == "parameter_server") {
    shape.has_wire = false;
    shape.gradients = kReduce;
    shape.values = kBroadcast;
    shape.fetches_before_forward = true;
    shape.has_servers = has(options, "--consistency async");
    shape.coupled = !shape.has_servers;
    shape.one_server = has(options, "--parameter-owners rank0");
    shape.divides_update = !shape.one_server && !shape.has_servers;
  } else {
    return std::nullopt;
  }
  return shape;
}

double wire_share(const std::string& strategy, const std::string& options) {
  const bool exchanges_half = has(options, "--exchange nccl16") || has(options, "--exchange asa16");
  if (strategy == "bsp" && exchanges_half) return 0.5;
  const bool wire_is_half = has(options, "--wire bf16") || has(options, "--wire fp16");
  return wire_is_half && strategy_shape(strategy, options).value_or(StrategyShape{}).has_wire ? 0.5 : 1;
}

}  // namespace lockstep::predict
