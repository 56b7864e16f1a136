#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

namespace lockstep::models {

/// The formula of tests/references/make_references.py, number for number: `count` fp64 numbers in [-1, 1),
/// all multiples of 2^-15.
at::Tensor hashed(int64_t stream, int64_t count);

/// The value that both sides give to the parameter which is registered as number `stream` (from 1).
at::Tensor hashed_parameter(int64_t stream, std::string_view name, at::IntArrayRef shape);

}  // namespace lockstep::models
