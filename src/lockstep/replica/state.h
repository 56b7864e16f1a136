#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/replica/parameters.h"

namespace lockstep::replica {

/// What has to be kept, beside the values of parameters and buffers, for another object of the same kind to
/// go on with the same bits: tensors by name.
struct State {
  std::vector<NamedTensor> tensors;
  /// Whether every rank has the same, so that one rank's will do for all.
  bool same_on_all_ranks = false;

  /// Keeps a copy in the plain layout, in host memory.
  void add(const std::string& name, const at::Tensor& value);
  void add(const std::string& name, int64_t number);
  void add(const std::string& name, const std::vector<size_t>& numbers);

  bool has(const std::string& name) const;
  /// Throws Error naming what is missing.
  const at::Tensor& get(const std::string& name) const;
  int64_t number(const std::string& name) const;
  std::vector<size_t> numbers(const std::string& name) const;
  /// To where that lies. Throws Error where it has another shape or type.
  void copy_to(const std::string& name, const at::Tensor& into) const;
};

}  // namespace lockstep::replica
