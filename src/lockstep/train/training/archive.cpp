#include "lockstep/train/training/archive.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>

#include <torch/csrc/jit/serialization/pickler.h>

#include "lockstep/base/error.h"
#include "lockstep/train/training/unpickle.h"

namespace lockstep::train {
namespace {

constexpr const char* kPickle = "data.pkl";
constexpr const char* kStorages = "data/";

}  // namespace

Dict make_dict() {
  return Dict(c10::AnyType::get(), c10::AnyType::get());
}

List make_list() {
  return List(c10::AnyType::get());
}

/// As torch::pickle_save, but for the tags of types that it gives to dictionaries, which torch.load refuses
/// to restore unless told to trust the file.
std::string to_archive(const at::IValue& content) {
  std::string pickled;
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

at::IValue from_archive(std::istream& stream, const std::string& what) {
  try {
    caffe2::serialize::PyTorchStreamReader reader(&stream);
    const auto [pickled, size] = reader.getRecord(kPickle);
    return unpickle({static_cast<const char*>(pickled.get()), size}, [&reader](const std::string& key) {
      auto [data, bytes] = reader.getRecord(kStorages + key);
      return StorageBytes{std::move(data), bytes};
    });
  } catch (const Error& error) {
    throw ConfigError(fmt::format("{} cannot be read: {}", what, error.what()), error.advice());
  } catch (const std::exception&) {
    // What LibTorch's reader of archives says names its own source files.
    throw ConfigError(fmt::format("{} is cut off, damaged, or was not written by torch.save", what),
                      "It takes checkpoints of lockstep and what Python's torch.save writes.");
  }
}

at::IValue from_archive(const std::string& bytes, const std::string& what) {
  std::istringstream stream(bytes);
  return from_archive(stream, what);
}

at::IValue read_archive(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw ConfigError(fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  return from_archive(stream, "'" + path + "'");
}

}  // namespace lockstep::train
