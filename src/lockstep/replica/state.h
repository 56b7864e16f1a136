#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/replica/parameters.h"

namespace lockstep::replica {

/// The state of an object by name, without the values of parameters and buffers: everything that another
/// object of the same kind needs to continue with the same bits.
struct State {
  std::vector<NamedTensor> tensors;
  /// Whether it is the same on every rank, so that a checkpoint needs only one rank's.
  bool same_on_all_ranks = false;

  /// Adds a contiguous copy in host memory.
  void add(const std::string& name, const at::Tensor& value);
  void add(const std::string& name, int64_t number);
  void add(const std::string& name, const std::vector<size_t>& numbers);

  /// Throws Error with the name if it is missing.
  const at::Tensor& get(const std::string& name) const;
  int64_t number(const std::string& name) const;
  std::vector<size_t> numbers(const std::string& name) const;
  /// Copies into an existing tensor. Throws Error if its shape or type differs.
  void copy_to(const std::string& name, const at::Tensor& into) const;
};

}  // namespace lockstep::replica
