#include "lockstep/train/training/unpickle.h"

#include <cstring>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/ops/empty.h>

#include "lockstep/base/error.h"
#include "lockstep/pickle/reader.h"

namespace lockstep::train {
namespace {

using at::IValue;

at::ScalarType type_of_storage(const std::string& name) {
  static const std::map<std::string, at::ScalarType> types{
      {"torch.FloatStorage", at::kFloat}, {"torch.DoubleStorage", at::kDouble},
      {"torch.HalfStorage", at::kHalf},   {"torch.BFloat16Storage", at::kBFloat16},
      {"torch.LongStorage", at::kLong},   {"torch.IntStorage", at::kInt},
      {"torch.ShortStorage", at::kShort}, {"torch.CharStorage", at::kChar},
      {"torch.ByteStorage", at::kByte},   {"torch.BoolStorage", at::kBool}};
  const auto found = types.find(name);
  if (found == types.end()) throw Error("it asks for a " + name, "Tensors of plain numbers can be read.");
  return found->second;
}

/// Every value once, so that what the pickle shares is shared.
class Converter {
 public:
  explicit Converter(const std::function<StorageBytes(const std::string&)>& read_storage)
      : read_storage_(read_storage) {}

  const IValue& convert(const pickle::Value& value) {
    const auto known = converted_.find(&value);
    if (known != converted_.end()) return known->second;
    IValue own = std::visit([this](const auto& content) { return made_of(content); }, value.content);
    return converted_[&value] = std::move(own);
  }

 private:
  static IValue made_of(std::monostate /*nothing*/) { return {}; }
  static IValue made_of(bool value) { return value; }
  static IValue made_of(int64_t value) { return value; }
  static IValue made_of(double value) { return value; }
  static IValue made_of(const std::string& value) { return value; }
  static IValue made_of(const pickle::Global& value) { return value.name; }

  IValue made_of(const pickle::List& values) {
    c10::impl::GenericList list(c10::AnyType::get());
    for (const pickle::Value* value : values) list.push_back(convert(*value));
    return list;
  }

  IValue made_of(const pickle::Dict& entries) {
    c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
    for (const auto& [key, value] : entries) dict.insert_or_assign(convert(*key), convert(*value));
    return dict;
  }

  IValue made_of(const pickle::Tensor& tensor) {
    const at::Tensor storage = storage_of(tensor);
    if (c10::multiply_integers(tensor.sizes) == 0) return at::empty(tensor.sizes, storage.options());
    return storage.as_strided(tensor.sizes, tensor.strides, tensor.offset);
  }

  at::Tensor storage_of(const pickle::Tensor& tensor) {
    const at::ScalarType type = type_of_storage(tensor.type);
    const std::string name = fmt::format("{} {} {}", tensor.type, tensor.elements, tensor.key);
    if (const auto known = storages_.find(name); known != storages_.end()) return known->second;
    const StorageBytes memory = read_storage_(tensor.key);
    const size_t element_bytes = c10::elementSize(type);
    if (memory.bytes / element_bytes < static_cast<size_t>(tensor.elements)) {
      throw Error(
          fmt::format("it asks for a storage of {} elements in {} bytes", tensor.elements, memory.bytes));
    }
    const at::Tensor storage = at::empty({tensor.elements}, type);
    if (tensor.elements > 0) {
      std::memcpy(storage.mutable_data_ptr(), memory.data.get(),
                  static_cast<size_t>(tensor.elements) * element_bytes);
    }
    storages_[name] = storage;
    return storage;
  }

  const std::function<StorageBytes(const std::string&)>& read_storage_;
  std::unordered_map<const pickle::Value*, IValue> converted_;
  /// By type, size and key.
  std::map<std::string, at::Tensor> storages_;
};

}  // namespace

at::IValue unpickle(std::string_view text,
                    const std::function<StorageBytes(const std::string& key)>& read_storage) {
  const pickle::Pickle pickle = pickle::read(text);
  return Converter(read_storage).convert(*pickle.root);
}

}  // namespace lockstep::train
