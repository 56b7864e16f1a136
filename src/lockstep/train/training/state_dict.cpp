#include "lockstep/train/training/state_dict.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/core/grad_mode.h>

#include "lockstep/base/error.h"
#include "lockstep/train/training/tensor_file.h"

namespace lockstep::train {
namespace {

constexpr const char* kWrapped = "module.";
constexpr const char* kNotAlways = "num_batches_tracked";
/// Names in a message; more would not help the reader.
constexpr size_t kMostNames = 5;

std::string names_text(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kMostNames);
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw ConfigError(fmt::format("'{}' does not fit this network: {}", path, why),
                    "Choose the --model that it was saved from.");
}

}  // namespace

std::vector<replica::NamedTensor> read_state_dict(const std::string& path) {
  const TensorFile file(path);
  std::vector<replica::NamedTensor> values = file.tensors(file.has(kModel) ? kModel : "");
  const bool wrapped = !values.empty() && std::ranges::all_of(values, [](const replica::NamedTensor& value) {
    return value.name.starts_with(kWrapped);
  });
  if (wrapped) {
    for (replica::NamedTensor& value : values) value.name.erase(0, std::string(kWrapped).size());
  }
  return values;
}

void load_values(const std::vector<replica::NamedTensor>& values, replica::Parameters& parameters,
                 const std::string& path) {
  std::vector<replica::NamedTensor> own = parameters.trainable();
  own.insert(own.end(), parameters.buffers().begin(), parameters.buffers().end());
  // Everything is checked before the first value is copied.
  std::vector<std::string> missing, unexpected;
  for (const auto& [name, into] : own) {
    const auto found = std::ranges::find(values, name, &replica::NamedTensor::name);
    if (found == values.end()) {
      if (!name.ends_with(kNotAlways)) missing.push_back(name);
      continue;
    }
    const at::Tensor& value = found->value;
    if (value.sizes() != into.sizes()) {
      refuse(path, fmt::format("its {} has the shape [{}], the network's [{}]", name,
                               fmt::join(value.sizes(), ", "), fmt::join(into.sizes(), ", ")));
    }
    if (value.is_floating_point() != into.is_floating_point()) {
      refuse(path, fmt::format("its {} has another kind of numbers", name));
    }
  }
  if (!missing.empty()) refuse(path, "it has no " + names_text(missing));
  for (const auto& [name, value] : values) {
    const auto found = std::ranges::find(own, name, &replica::NamedTensor::name);
    if (found == own.end()) unexpected.push_back(name);
  }
  if (!unexpected.empty()) refuse(path, "the network has no " + names_text(unexpected));
  const at::NoGradGuard no_grad;
  for (const auto& [name, value] : values) {
    std::ranges::find(own, name, &replica::NamedTensor::name)->value.detach().copy_(value);
  }
}

}  // namespace lockstep::train
