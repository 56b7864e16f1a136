#include "comm/typed_values.h"

#include <algorithm>
#include <numeric>

#include "lockstep/base/half_float.h"

namespace lockstep::comm {
namespace {

template <typename T>
T load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
void store(uint8_t* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

}  // namespace

uint64_t scrambled(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15u + b + 1;
  for (int round = 0; round < 2; ++round) {
    x ^= x >> 31;
    x *= 0xd6e8feb86659fd93u;
  }
  return x ^ (x >> 29);
}

int whole_number(int rank, size_t index) {
  return int(scrambled(uint64_t(rank), index) % 32);
}

double reduced_whole_number(ReduceOp op, const std::vector<int>& ranks, size_t index) {
  double result = whole_number(ranks.front(), index);
  for (size_t i = 1; i < ranks.size(); ++i) {
    const double value = whole_number(ranks[i], index);
    if (op == ReduceOp::kSum) result += value;
    if (op == ReduceOp::kMin) result = std::min(result, value);
    if (op == ReduceOp::kMax) result = std::max(result, value);
  }
  return result;
}

std::vector<int> first_ranks(int count) {
  std::vector<int> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

TypedValues TypedValues::whole_numbers(DType dtype, size_t count, int rank) {
  TypedValues values(dtype, count);
  for (size_t i = 0; i < count; ++i) values.set(i, whole_number(rank, i));
  return values;
}

TypedValues TypedValues::scrambled_bytes(DType dtype, size_t count, int rank) {
  TypedValues values(dtype, count);
  const size_t width = element_bytes(dtype);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = scrambled(uint64_t(rank), i);
    std::memcpy(values.data() + i * width, &bits, width);
  }
  return values;
}

double TypedValues::get(size_t index) const {
  const uint8_t* at = data() + index * element_bytes(dtype_);
  switch (dtype_) {
    case DType::kFloat64:
      return load<double>(at);
    case DType::kFloat16:
      return float16_to_float(load<uint16_t>(at));
    case DType::kBFloat16:
      return bfloat16_to_float(load<uint16_t>(at));
    case DType::kUInt8:
      return *at;
    case DType::kInt32:
      return load<int32_t>(at);
    case DType::kInt64:
      return double(load<int64_t>(at));
    case DType::kFloat32:
      break;
  }
  return load<float>(at);
}

void TypedValues::set(size_t index, double value) {
  uint8_t* at = data() + index * element_bytes(dtype_);
  switch (dtype_) {
    case DType::kFloat64:
      return store(at, value);
    case DType::kFloat16:
      return store(at, float_to_float16(float(value)));
    case DType::kBFloat16:
      return store(at, float_to_bfloat16(float(value)));
    case DType::kUInt8:
      return store(at, uint8_t(value));
    case DType::kInt32:
      return store(at, int32_t(value));
    case DType::kInt64:
      return store(at, int64_t(value));
    case DType::kFloat32:
      return store(at, float(value));
  }
}

}  // namespace lockstep::comm
