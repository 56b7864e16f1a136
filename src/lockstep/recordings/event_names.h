#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/recordings/kineto_trace.h"

namespace lockstep::recordings {

/// More ranks than any job has.
inline constexpr int kMostRanks = 1'000'000;

/// By the category of an event, as any version names it, and by its name where old versions had one category
/// for operators and annotations. Empty for those that explain nothing.
std::optional<EventKind> kind_of(std::string_view category, std::string_view name);

/// Whether events of a category that has no kind are known to explain nothing.
bool explains_nothing(std::string_view category);

/// "hccl" for "hccl:all_reduce", a collective of a library that is not read; empty for all else.
std::string_view unknown_library(std::string_view name);

/// "all-reduce" for "allreduce", "c10d::allreduce_", "ncclDevKernel_AllReduce_Sum_f32(...)"; "other" for what
/// is no collective that has a name.
std::string collective_kind(std::string_view name);

EventRole role_of(EventKind kind, std::string_view name);

/// Bytes of an element, by the names that operators ("float", "c10::Half") and NCCL's notes ("Float") have
/// for its type; 0: not known.
int bytes_of_type(std::string_view type);

/// Ranks in "[0, 1]", as PyTorch lists them.
std::vector<int> ranks_in_text(std::string_view text);

}  // namespace lockstep::recordings
