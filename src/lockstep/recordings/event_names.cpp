#include "lockstep/recordings/event_names.h"

#include <algorithm>
#include <unordered_map>

namespace lockstep::recordings {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

std::optional<EventKind> kind_of(std::string_view category) {
  static const std::unordered_map<std::string_view, EventKind> kKinds{
      {"user_annotation", EventKind::kAnnotation},
      {"cpu_op", EventKind::kOperator},
      {"kernel", EventKind::kKernel},
      {"gpu_memcpy", EventKind::kCopy},
      {"gpu_memset", EventKind::kCopy},
      {"cuda_runtime", EventKind::kLaunch},
      {"cuda_driver", EventKind::kLaunch},
      {"hip_runtime", EventKind::kLaunch},
      {"Kernel", EventKind::kKernel},
      {"Memcpy", EventKind::kCopy},
      {"Memset", EventKind::kCopy},
      {"Runtime", EventKind::kLaunch},
      {"Operator", EventKind::kOperator}};
  const auto found = kKinds.find(category);
  return found == kKinds.end() ? std::nullopt : std::optional(found->second);
}

EventRole role_of(EventKind kind, std::string_view name) {
  const auto starts = [&](std::string_view with) { return name.starts_with(with); };
  switch (kind) {
    case EventKind::kAnnotation:
      if (starts("ProfilerStep#")) return EventRole::kProfilerStep;
      if (starts("lockstep.step#")) return EventRole::kStepEnd;
      if (starts("enumerate(DataLoader)#")) return EventRole::kLoader;
      if (starts("Optimizer.step#")) return EventRole::kOptimizer;
      if (name == "DistributedDataParallel.forward" || name == "FullyShardedDataParallel.forward")
        return EventRole::kForward;
      for (const char* backend : {"gloo:", "nccl:", "mpi:", "ucc:"}) {
        if (starts(backend)) return EventRole::kCollective;
      }
      return EventRole::kPlain;
    case EventKind::kOperator:
      if (contains(name, "AccumulateGrad")) return EventRole::kGradient;
      if (starts("autograd::engine::evaluate_function")) return EventRole::kBackward;
      // A backend's own events were operators before torch 2.0.
      if (starts("gloo:") || starts("nccl:")) return EventRole::kCollective;
      if (starts("c10d::")) return EventRole::kIssue;
      if (name == "record_param_comms") return EventRole::kNote;
      if (starts("aten::conv") || name == "aten::linear" || name == "aten::embedding")
        return EventRole::kLayer;
      if (starts("Torch-Compiled Region") || name == "CompiledFunction") return EventRole::kCompiled;
      return EventRole::kPlain;
    case EventKind::kKernel:
      return contains(name, "nccl") || contains(name, "Nccl") ? EventRole::kCommunication : EventRole::kPlain;
    case EventKind::kLaunch:
      return contains(name, "Synchronize") ? EventRole::kSynchronize : EventRole::kPlain;
    case EventKind::kCopy:
      return EventRole::kPlain;
  }
  return EventRole::kPlain;
}

int bytes_of_type(std::string_view type) {
  static const std::unordered_map<std::string_view, int> kBytes{
      {"float", 4},         {"Float", 4},         {"double", 8},      {"Double", 8}, {"c10::Half", 2},
      {"Half", 2},          {"c10::BFloat16", 2}, {"BFloat16", 2},    {"long", 8},   {"long int", 8},
      {"Long", 8},          {"int", 4},           {"Int", 4},         {"bool", 1},   {"Bool", 1},
      {"unsigned char", 1}, {"Byte", 1},          {"signed char", 1}, {"Char", 1},   {"short", 2}};
  const auto found = kBytes.find(type);
  return found == kBytes.end() ? 0 : found->second;
}

std::vector<int> ranks_in_text(std::string_view text) {
  std::vector<int> ranks;
  int64_t number = -1;
  for (const char c : text) {
    if (c >= '0' && c <= '9') {
      number = std::min<int64_t>(std::max<int64_t>(number, 0) * 10 + (c - '0'), kMostRanks);
    } else if (number >= 0) {
      ranks.push_back(static_cast<int>(number));
      number = -1;
    }
  }
  return ranks;
}

}  // namespace lockstep::recordings
