#include "lockstep/train/training/archive.h"

#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <unordered_map>

#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include "lockstep/base/error.h"
#include "lockstep/pickle/reader.h"
#include "lockstep/train/rows/fingerprint.h"

namespace lockstep::train {
namespace {

using at::IValue;

// The layout of a torch.save file, a ZIP archive without compression:
//
//   NAME/data.pkl     the content as a pickle of protocol 2. A tensor in it is a call of
//                     _rebuild_tensor_v2 with a key of its storage, offset, sizes and strides.
//   NAME/data/KEY     the bytes of one storage, little-endian; KEY is 0, 1, ...
//   NAME/version      the version of the format
//
// NAME is arbitrary; LibTorch's reader and writer of archives hide it.
constexpr const char* kPickle = "data.pkl";
constexpr const char* kStorages = "data/";

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

/// Turns a pickle's values into LibTorch's. Converts every value once, so that values and storages which the
/// file shares stay shared, and a file of shared lists does not grow exponentially.
class Converter {
 public:
  explicit Converter(caffe2::serialize::PyTorchStreamReader& archive) : archive_(archive) {}

  const IValue& convert(const pickle::Value& value) {
    const auto known = converted_.find(&value);
    if (known != converted_.end()) return known->second;
    IValue own = std::visit([this](const auto& content) { return made_of(content); }, value.content);
    return converted_[&value] = std::move(own);
  }

 private:
  static IValue made_of(std::monostate /*none*/) { return {}; }
  static IValue made_of(bool value) { return value; }
  static IValue made_of(int64_t value) { return value; }
  static IValue made_of(double value) { return value; }
  static IValue made_of(const std::string& value) { return value; }
  static IValue made_of(const pickle::Global& value) { return value.name; }

  IValue made_of(const pickle::List& values) {
    List list = make_list();
    for (const pickle::Value* value : values) list.push_back(convert(*value));
    return list;
  }

  IValue made_of(const pickle::Dict& entries) {
    Dict dict = make_dict();
    for (const auto& [key, value] : entries) dict.insert_or_assign(convert(*key), convert(*value));
    return dict;
  }

  IValue made_of(const pickle::Tensor& tensor) {
    const at::Tensor storage = storage_of(tensor);
    if (c10::multiply_integers(tensor.sizes) == 0) return at::empty(tensor.sizes, storage.options());
    // pickle::read has checked that every element lies within the storage.
    return storage.as_strided(tensor.sizes, tensor.strides, tensor.offset);
  }

  at::Tensor storage_of(const pickle::Tensor& tensor) {
    const at::ScalarType type = type_of_storage(tensor.type);
    const std::string name = fmt::format("{} {} {}", tensor.type, tensor.elements, tensor.key);
    if (const auto known = storages_.find(name); known != storages_.end()) return known->second;
    const auto [data, bytes] = archive_.getRecord(kStorages + tensor.key);
    const size_t element_bytes = c10::elementSize(type);
    // Checked before memory is allocated: the number of elements is the file's claim.
    if (bytes / element_bytes < static_cast<size_t>(tensor.elements)) {
      throw Error(fmt::format("it asks for a storage of {} elements in {} bytes", tensor.elements, bytes));
    }
    const at::Tensor storage = at::empty({tensor.elements}, type);
    if (tensor.elements > 0) {
      std::memcpy(storage.mutable_data_ptr(), data.get(),
                  static_cast<size_t>(tensor.elements) * element_bytes);
    }
    storages_[name] = storage;
    return storage;
  }

  caffe2::serialize::PyTorchStreamReader& archive_;
  std::unordered_map<const pickle::Value*, IValue> converted_;
  /// By type, number of elements and key.
  std::map<std::string, at::Tensor> storages_;
};

/// Adds kind, size and bits, so that no two contents are confused.
void add(uint64_t& hash, const at::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor tensor = value.toTensor().contiguous();
    add_text(hash, fmt::format("tensor {} {}", static_cast<int>(tensor.scalar_type()),
                               fmt::join(tensor.sizes(), " ")));
    add_bits(hash, tensor);
  } else if (value.isGenericDict()) {
    add_text(hash, fmt::format("dictionary {}", value.toGenericDict().size()));
    for (const auto& entry : value.toGenericDict()) {
      add(hash, entry.key());
      add(hash, entry.value());
    }
  } else if (value.isList()) {
    add_text(hash, fmt::format("list {}", value.toListRef().size()));
    for (const at::IValue& item : value.toListRef()) add(hash, item);
  } else if (value.isString()) {
    add_text(hash, "text");
    add_text(hash, value.toStringRef());
  } else if (value.isInt()) {
    add_text(hash, fmt::format("number {}", value.toInt()));
  } else if (value.isDouble()) {
    add_text(hash, fmt::format("real {}", std::bit_cast<uint64_t>(value.toDouble())));
  } else {
    throw Error("it holds something other than dictionaries, lists, tensors, texts and numbers");
  }
}

at::IValue from_stream(std::istream& stream, const std::string& what) {
  try {
    caffe2::serialize::PyTorchStreamReader reader(&stream);
    const auto [pickled, size] = reader.getRecord(kPickle);
    const pickle::Pickle pickle = pickle::read({static_cast<const char*>(pickled.get()), size});
    return Converter(reader).convert(*pickle.root);
  } catch (const Error& error) {
    throw ConfigError(fmt::format("{} cannot be read: {}", what, error.what()), error.advice());
  } catch (const std::exception&) {
    // The text of the exception is left out: LibTorch's names lines of its own sources.
    throw ConfigError(fmt::format("{} is cut off, damaged, or was not written by torch.save", what),
                      "It takes checkpoints of lockstep and what Python's torch.save writes.");
  }
}

}  // namespace

Dict make_dict() {
  return Dict(c10::AnyType::get(), c10::AnyType::get());
}

List make_list() {
  return List(c10::AnyType::get());
}

std::string to_archive(const at::IValue& content) {
  std::string pickled;
  // As torch::pickle_save, but without the type tags that it gives to dictionaries: torch.load refuses them
  // unless told to trust the file.
  torch::jit::Pickler pickler([&pickled](const char* data, size_t size) { pickled.append(data, size); },
                              nullptr, nullptr, nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(content);
  pickler.stop();
  std::string archive;
  caffe2::serialize::PyTorchStreamWriter writer([&archive](const void* data, size_t size) {
    archive.append(static_cast<const char*>(data), size);
    return size;
  });
  writer.writeRecord(kPickle, pickled.data(), pickled.size());
  size_t number = 0;
  for (const at::Tensor& tensor : pickler.tensorData()) {
    const torch::jit::WriteableTensorData data = torch::jit::getWriteableTensorData(tensor);
    writer.writeRecord(kStorages + std::to_string(number++), data.data(), data.sizeInBytes());
  }
  writer.writeEndOfFile();
  return archive;
}

at::IValue from_archive(const std::string& bytes, const std::string& what) {
  std::istringstream stream(bytes);
  return from_stream(stream, what);
}

at::IValue read_archive(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw ConfigError(fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  return from_stream(stream, "'" + path + "'");
}

uint64_t hash_of(const at::IValue& content) {
  uint64_t hash = kEmptyHash;
  add(hash, content);
  return hash;
}

}  // namespace lockstep::train
