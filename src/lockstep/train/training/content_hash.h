#pragma once

#include <cstdint>

#include <ATen/core/ivalue.h>

namespace lockstep::train {

/// Of every bit of dictionaries, lists, tensors, texts and numbers, in their order: what is written to a file
/// and read again has the same. LibTorch's reader of archives does not compare check sums.
uint64_t hash_of(const at::IValue& content);

}  // namespace lockstep::train
