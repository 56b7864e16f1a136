#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// A number of `size` bytes, the lowest first.
inline std::string little_endian(uint64_t number, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(number >> (8 * i));
  return bytes;
}

/// A file of NumPy's, version 1: `header` is a Python dict, as "{'descr': '<f4', ...}".
inline std::string npy_with(const std::string& header, std::string_view values) {
  return "\x93NUMPY" + little_endian(1, 1) + little_endian(0, 1) + little_endian(header.size(), 2) + header +
         std::string(values);
}

inline std::string npy(const std::string& type, const std::string& shape, std::string_view values) {
  return npy_with("{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }", values);
}

inline std::string safetensors_with(const std::string& header, std::string_view values) {
  return little_endian(header.size(), 8) + header + std::string(values);
}

/// The bytes of numbers.
template <typename T>
std::string bytes_of(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

}  // namespace lockstep::data
