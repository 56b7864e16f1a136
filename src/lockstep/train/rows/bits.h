#pragma once

#include <cstdint>
#include <string_view>

#include <ATen/core/Tensor.h>

namespace lockstep::train {

/// FNV-1a, of nothing yet.
constexpr uint64_t kEmptyHash = 14695981039346656037ULL;

/// Adds the bits of a dense tensor as they lie in memory, word by word; of a GPU they are copied first.
void add_bits(uint64_t& hash, const at::Tensor& tensor);

/// Adds text, and where it ends.
void add_text(uint64_t& hash, std::string_view text);

}  // namespace lockstep::train
