#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lockstep::comm {

// Tables of types and operations, here and in the backends, are in the order of these.
enum class DType : uint8_t { kFloat32, kFloat64, kFloat16, kBFloat16, kUInt8, kInt32, kInt64 };
enum class ReduceOp : uint8_t { kSum, kMin, kMax };
enum class DeviceKind : uint8_t { kCpu, kCuda };

struct DTypeTraits {
  const char* name;
  size_t bytes;
};

inline constexpr DTypeTraits kDTypeTraits[] = {{"fp32", 4},  {"fp64", 8},  {"fp16", 2}, {"bf16", 2},
                                               {"uint8", 1}, {"int32", 4}, {"int64", 8}};

constexpr const DTypeTraits& traits_of(DType dtype) {
  return kDTypeTraits[static_cast<size_t>(dtype)];
}

constexpr size_t element_bytes(DType dtype) {
  return traits_of(dtype).bytes;
}

constexpr const char* to_string(DType dtype) {
  return traits_of(dtype).name;
}

constexpr const char* to_string(DeviceKind device) {
  return device == DeviceKind::kCpu ? "host" : "CUDA";
}

/// Flat typed memory. Its owner keeps it alive, and leaves it alone, until the Work that uses it is complete.
/// `count` is in elements and may be 0 (then `data` may be null). `stream` is the device's own queue in which
/// the data becomes ready (a cudaStream_t); null on a CPU.
struct Buffer {
  void* data = nullptr;
  size_t count = 0;
  DType dtype = DType::kFloat32;
  DeviceKind device = DeviceKind::kCpu;
  void* stream = nullptr;

  size_t bytes() const { return count * element_bytes(dtype); }
};

/// The DType of float, double, uint8_t, int32_t or int64_t.
template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::kFloat32;
  if constexpr (std::is_same_v<T, double>) return DType::kFloat64;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::kUInt8;
  if constexpr (std::is_same_v<T, int32_t>) return DType::kInt32;
  if constexpr (std::is_same_v<T, int64_t>) return DType::kInt64;
}

/// A Buffer over host memory of a C++ element type.
template <typename T>
Buffer host_buffer(T* data, size_t count) {
  return Buffer{const_cast<std::remove_const_t<T>*>(data), count, dtype_of<std::remove_const_t<T>>()};
}

}  // namespace lockstep::comm
