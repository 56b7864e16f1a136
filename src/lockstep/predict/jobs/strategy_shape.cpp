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
  if (strategy == "ddp" || strategy == "horovod") return StrategyShape{.gradients = kAllReduce};
  if (strategy == "bsp") return StrategyShape{.gradients = kAllReduce, .overlaps = false, .per_tensor = true};
  if (strategy == "data_parallel") return StrategyShape{.one_process = true};
  StrategyShape shape{.overlaps = !has(options, "--overlap off"), .updates_on_arrival = true};
  if (strategy == "replicated") {
    shape.gradients = kAllReduce;
  } else if (strategy == "sharded") {
    shape.gradients = kReduceScatter;
    shape.values = kAllGather;
    shape.divides_update = true;
  } else if (strategy == "parameter_server") {
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

double wire_share(const std::string& options) {
  for (const char* half : {"--wire bf16", "--wire fp16", "--exchange nccl16", "--exchange asa16"}) {
    if (has(options, half)) return 0.5;
  }
  return 1;
}

}  // namespace lockstep::predict
