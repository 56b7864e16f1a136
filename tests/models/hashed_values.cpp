#include "models/hashed_values.h"

#include <ATen/ops/empty.h>

namespace lockstep::models {

at::Tensor hashed(int64_t stream, int64_t count) {
  at::Tensor values = at::empty({count}, at::kDouble);
  auto* out = values.mutable_data_ptr<double>();
  const uint32_t start = static_cast<uint32_t>(stream) * 0x9E3779B9U;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t x = static_cast<uint32_t>(i) + start;
    x *= 0x9E3779B1U;
    x ^= x >> 15;
    x *= 0x85EBCA77U;
    x ^= x >> 13;
    x *= 0xC2B2AE3DU;
    x ^= x >> 16;
    out[i] = static_cast<double>(x >> 16) / 32768 - 1;
  }
  return values;
}

at::Tensor hashed_parameter(int64_t stream, std::string_view name, at::IntArrayRef shape) {
  const at::Tensor values = hashed(stream, c10::multiply_integers(shape)).view(shape);
  if (shape.size() == 1) return values.div(4).add(name.ends_with(".weight") ? 1 : 0);
  double bound = 1;
  for (int64_t fan_in = c10::multiply_integers(shape.slice(1)); fan_in >= 4; fan_in /= 4) bound /= 2;
  return values.mul(bound);
}

}  // namespace lockstep::models
