#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lockstep::comm {

enum class DType : uint8_t { kFloat32, kFloat64, kFloat16, kBFloat16, kUInt8, kInt32, kInt64 };
enum class ReduceOp : uint8_t { kSum, kMin, kMax };
enum class DeviceKind : uint8_t { kCpu, kCuda };

constexpr size_t element_bytes(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kUInt8:
      return 1;
  }
  return 0;
}

constexpr const char* to_string(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "fp32";
    case DType::kFloat64:
      return "fp64";
    case DType::kFloat16:
      return "fp16";
    case DType::kBFloat16:
      return "bf16";
    case DType::kUInt8:
      return "uint8";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
  }
  return "?";
}

constexpr const char* to_string(DeviceKind device) {
  return device == DeviceKind::kCpu ? "host" : "CUDA";
}

/// Flat typed memory that its owner keeps alive, and does not touch, until the Work that uses it is complete.
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

template <typename T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::kFloat32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::kFloat64;
}
template <>
constexpr DType dtype_of<uint8_t>() {
  return DType::kUInt8;
}
template <>
constexpr DType dtype_of<int32_t>() {
  return DType::kInt32;
}
template <>
constexpr DType dtype_of<int64_t>() {
  return DType::kInt64;
}

/// A Buffer over host memory of a C++ element type.
template <typename T>
Buffer host_buffer(T* data, size_t count) {
  return Buffer{const_cast<std::remove_const_t<T>*>(data), count, dtype_of<std::remove_const_t<T>>()};
}

}  // namespace lockstep::comm
