#include <algorithm>
#include <array>
#include <set>
#include <unordered_map>
#include <utility>

#include "lockstep/recordings/kineto_trace.h"

namespace lockstep::recordings {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// A node of autograd: "ConvolutionBackward0", the one event of it before torch 1.10.
bool is_node(std::string_view name) {
  while (!name.empty() && name.back() >= '0' && name.back() <= '9') name.remove_suffix(1);
  return name.ends_with("Backward") && !contains(name, "aten::");
}

/// Libraries of collectives whose events are read.
constexpr std::array<std::string_view, 4> kLibraries{"gloo", "nccl", "mpi", "ucc"};

}  // namespace

std::optional<EventKind> kind_of(std::string_view category, std::string_view name) {
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
  if (found == kKinds.end()) return std::nullopt;
  // Torch 1.8 to 1.10 had no category for what a script or PyTorch's own Python names.
  const bool annotates = category == "Operator" && !contains(name, "::") && !is_node(name);
  return annotates ? EventKind::kAnnotation : found->second;
}

bool explains_nothing(std::string_view category) {
  static const std::set<std::string_view> kNothing{"",
                                                   "Trace",
                                                   "async",
                                                   "async_cpu_to_gpu",
                                                   "ac2g",
                                                   "fwdbwd",
                                                   "overhead",
                                                   "cuda_sync",
                                                   "cpu_instant_event",
                                                   "gpu_user_annotation",
                                                   "cuda_event",
                                                   "user_defined",
                                                   "Python",
                                                   "external_correlation",
                                                   "python_function",
                                                   "Communication",
                                                   "cuda_profiler_range"};
  return kNothing.contains(category);
}

std::string_view unknown_library(std::string_view name) {
  const size_t colon = name.find(':');
  const std::string_view library = name.substr(0, colon);
  const bool is_one = colon != std::string_view::npos && colon > 0 && colon + 1 < name.size() &&
                      name[colon + 1] != ':' &&
                      std::ranges::all_of(library, [](char c) { return c >= 'a' && c <= 'z'; }) &&
                      collective_kind(name.substr(colon)) != "other";
  return is_one && std::ranges::find(kLibraries, library) == kLibraries.end() ? library : std::string_view();
}

EventRole role_of(EventKind kind, std::string_view name) {
  const auto starts = [&](std::string_view with) { return name.starts_with(with); };
  switch (kind) {
    case EventKind::kAnnotation:
    case EventKind::kOperator:
      // A backend's own events were operators before torch 2.0.
      for (const std::string_view library : kLibraries) {
        if (starts(library) && name.substr(library.size()).starts_with(":") &&
            name[library.size() + 1] != ':')
          return EventRole::kCollective;
      }
      if (kind == EventKind::kAnnotation) {
        if (starts("ProfilerStep#")) return EventRole::kProfilerStep;
        if (starts("lockstep.step#")) return EventRole::kStepEnd;
        if (starts("enumerate(DataLoader)#")) return EventRole::kLoader;
        if (starts("Optimizer.step#")) return EventRole::kOptimizer;
        if (name == "DistributedDataParallel.forward" || name == "FullyShardedDataParallel.forward")
          return EventRole::kForward;
        return EventRole::kPlain;
      }
      if (contains(name, "AccumulateGrad")) return EventRole::kGradient;
      if (starts("autograd::engine::evaluate_function") || is_node(name)) return EventRole::kBackward;
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

std::string collective_kind(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') letters += static_cast<char>(c - 'A' + 'a');
    if (c >= 'a' && c <= 'z') letters += c;
  }
  static constexpr std::array<std::pair<const char*, const char*>, 12> kKinds{
      {{"allreduce", "all-reduce"},
       {"reducescatter", "reduce-scatter"},
       {"allgather", "all-gather"},
       {"alltoall", "all-to-all"},
       {"broadcast", "broadcast"},
       {"barrier", "barrier"},
       {"sendrecv", "send-receive"},
       {"send", "send"},
       {"recv", "receive"},
       {"reduce", "reduce"},
       {"gather", "gather"},
       {"scatter", "scatter"}}};
  for (const auto& [part, kind] : kKinds) {
    if (letters.find(part) != std::string::npos) return kind;
  }
  return "other";
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
