#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/recordings/kineto_trace.h"

namespace lockstep::recordings {

/// More ranks than any job has.
inline constexpr int kMostRanks = 1'000'000;

/// By the category of an event, as any version names it; empty for those that explain nothing.
std::optional<EventKind> kind_of(std::string_view category);

EventRole role_of(EventKind kind, std::string_view name);

/// Bytes of an element, by the names that operators ("float", "c10::Half") and NCCL's notes ("Float") have
/// for its type; 0: not known.
int bytes_of_type(std::string_view type);

/// Ranks in "[0, 1]", as PyTorch lists them.
std::vector<int> ranks_in_text(std::string_view text);

}  // namespace lockstep::recordings
