#pragma once

#include <cstdint>
#include <cstring>
#include <ostream>
#include <vector>

#include "lockstep/comm/types.h"

namespace lockstep::comm {

inline const std::vector<DType> kAllDTypes = {DType::kFloat32,  DType::kFloat64, DType::kFloat16,
                                              DType::kBFloat16, DType::kUInt8,   DType::kInt32,
                                              DType::kInt64};
inline const std::vector<ReduceOp> kAllOps = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax};

inline void PrintTo(DType dtype, std::ostream* out) {
  *out << to_string(dtype);
}

/// A number that looks random and differs for different arguments.
uint64_t scrambled(uint64_t a, uint64_t b);

/// Elements of any dtype.
class TypedValues {
 public:
  TypedValues(DType dtype, size_t count) : dtype_(dtype), bytes_(count * element_bytes(dtype) + kGuardBytes) {
    std::memset(bytes_.data() + size_bytes(), kGuard, kGuardBytes);
  }

  /// Small whole numbers, whose sum over 8 ranks is exact in every dtype.
  static TypedValues whole_numbers(DType dtype, size_t count, int rank);
  /// Bytes that differ for every (rank, index).
  static TypedValues scrambled_bytes(DType dtype, size_t count, int rank);

  DType dtype() const { return dtype_; }
  size_t count() const { return size_bytes() / element_bytes(dtype_); }
  size_t size_bytes() const { return bytes_.size() - kGuardBytes; }
  uint8_t* data() { return bytes_.data(); }
  const uint8_t* data() const { return bytes_.data(); }

  double get(size_t index) const;
  void set(size_t index, double value);

  Buffer buffer() { return {bytes_.data(), count(), dtype_}; }
  Buffer part(size_t first, size_t part_count) {
    return {bytes_.data() + first * element_bytes(dtype_), part_count, dtype_};
  }

  /// Also says whether nothing was written behind the end.
  bool operator==(const TypedValues& other) const { return dtype_ == other.dtype_ && bytes_ == other.bytes_; }

 private:
  static constexpr size_t kGuardBytes = 64;
  static constexpr int kGuard = 0xa5;

  DType dtype_;
  std::vector<uint8_t> bytes_;
};

/// Element `index` of whole_numbers(dtype, count, rank).
int whole_number(int rank, size_t index);
/// The reduction of whole_number over the given ranks.
double reduced_whole_number(ReduceOp op, const std::vector<int>& ranks, size_t index);
std::vector<int> first_ranks(int count);

}  // namespace lockstep::comm
