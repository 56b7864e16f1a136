#include "lockstep/train/training/tensor_file.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

template <typename Action>
auto as_config_error(const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    throw ConfigError(error.what(), error.advice());
  }
}

/// Refuses files of torch.save, which are pickles: a ZIP archive, or before PyTorch 1.6 a plain one. The text
/// of a header tells other files apart whose size begins with the same bytes.
void check_format(const data::PositionedFile& file, const std::string& path) {
  std::string begin(9, '\0');
  if (file.bytes() >= begin.size()) file.read(0, begin);
  if (begin.back() == '{' || (!begin.starts_with("PK\x03\x04") && !begin.starts_with('\x80'))) return;
  throw Error(
      fmt::format("'{}' was written by torch.save, whose files lockstep does not read", path),
      fmt::format("For --init: python -m lockstep convert {} FILE.safetensors. A training of an older "
                  "lockstep is resumed by that lockstep alone: use it, or train again.",
                  path));
}

bool has_prefix(const data::StoredTensors& tensors, const std::string& prefix) {
  const auto first = tensors.lower_bound(prefix);
  return first != tensors.end() && first->first.starts_with(prefix);
}

data::Safetensors read_whole(const data::PositionedFile& file, const std::string& path) {
  check_format(file, path);
  data::Safetensors found = data::read_safetensors(file);
  data::check_checksum(file, found);
  if (has_prefix(found.tensors, kModel) && !found.metadata.contains(data::kChecksumKey)) {
    throw Error(fmt::format("'{}' is a checkpoint without its checksum: it is damaged", path),
                "Take another file; this one's disk or transfer may be at fault.");
  }
  return found;
}

constexpr const char* kWrapped = "module.";
constexpr const char* kOptional = "num_batches_tracked";
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

TensorFile::TensorFile(const std::string& path)
    : path_(path),
      file_(as_config_error([&] { return data::PositionedFile(path); })),
      found_(as_config_error([&] { return read_whole(file_, path); })) {}

std::vector<replica::NamedTensor> TensorFile::tensors(const std::string& prefix) const {
  std::vector<replica::NamedTensor> tensors;
  for (const auto& [name, stored] : found_.tensors) {
    if (!name.starts_with(prefix)) continue;
    const at::Tensor tensor = at::empty(stored.shape, type_named(stored.type));
    file_.read(stored.position, {static_cast<char*>(tensor.mutable_data_ptr()), stored.bytes});
    tensors.push_back({name.substr(prefix.size()), tensor});
  }
  return tensors;
}

bool TensorFile::has(const std::string& prefix) const {
  return has_prefix(found_.tensors, prefix);
}

std::string TensorFile::metadata(const std::string& key) const {
  const auto found = found_.metadata.find(key);
  return found == found_.metadata.end() ? "" : found->second;
}

std::string type_name(const at::Tensor& tensor) {
  return c10::getDtypeNames(tensor.scalar_type()).first;
}

at::ScalarType type_named(const std::string& name) {
  return c10::getStringToDtypeMap().at(name);
}

std::string_view values_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

void write_tensors(const std::filesystem::path& path, const std::vector<replica::NamedTensor>& tensors,
                   const std::map<std::string, std::string>& metadata) {
  // Those of a GPU, or in another layout, are copied; all others are written from where they are.
  std::vector<at::Tensor> in_rows;
  std::vector<data::TensorToWrite> written;
  for (const auto& [name, value] : tensors) {
    const at::Tensor& values = in_rows.emplace_back(value.detach().cpu().contiguous());
    written.push_back({name, type_name(values), values.sizes().vec(), values_of(values)});
  }
  data::write_safetensors(path, std::move(written), metadata);
}

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
      if (!name.ends_with(kOptional)) missing.push_back(name);
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
