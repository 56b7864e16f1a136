#include "lockstep/replica/state.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>

#include "lockstep/base/error.h"

namespace lockstep::replica {
namespace {

constexpr const char* kAdvice = "It was written by another version, or is damaged: resume from another file.";

}  // namespace

void State::add(const std::string& name, const at::Tensor& value) {
  tensors.push_back({name, value.detach().to(at::kCPU, value.scalar_type(), /*non_blocking=*/false,
                                             /*copy=*/true, at::MemoryFormat::Contiguous)});
}

void State::add(const std::string& name, int64_t number) {
  tensors.push_back({name, at::scalar_tensor(number, at::kLong)});
}

void State::add(const std::string& name, const std::vector<size_t>& numbers) {
  const at::Tensor tensor = at::empty({static_cast<int64_t>(numbers.size())}, at::kLong);
  std::ranges::copy(numbers, tensor.mutable_data_ptr<int64_t>());
  tensors.push_back({name, tensor});
}

const at::Tensor& State::get(const std::string& name) const {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  if (found == tensors.end()) throw Error(fmt::format("the state to go on from has no {}", name), kAdvice);
  return found->value;
}

int64_t State::number(const std::string& name) const {
  const at::Tensor& value = get(name);
  if (value.scalar_type() != at::kLong || value.numel() != 1) {
    throw Error(fmt::format("the state to go on from has no number in {}", name), kAdvice);
  }
  return value.item<int64_t>();
}

std::vector<size_t> State::numbers(const std::string& name) const {
  const at::Tensor& value = get(name);
  if (value.scalar_type() != at::kLong || value.dim() != 1) {
    throw Error(fmt::format("the state to go on from has no numbers in {}", name), kAdvice);
  }
  const auto* begin = value.const_data_ptr<int64_t>();
  return {begin, begin + value.numel()};
}

void State::copy_to(const std::string& name, const at::Tensor& into) const {
  const at::Tensor& value = get(name);
  if (value.sizes() != into.sizes() || value.scalar_type() != into.scalar_type()) {
    throw Error(fmt::format("{} of the state to go on from has the shape [{}], not [{}]", name,
                            fmt::join(value.sizes(), ", "), fmt::join(into.sizes(), ", ")),
                kAdvice);
  }
  const at::NoGradGuard no_grad;
  into.detach().copy_(value);
}

}  // namespace lockstep::replica
