#include "lockstep/train/export_training.h"

#include <string>

#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>

#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include "lockstep/base/file.h"
#include "lockstep/train/row_trainee.h"

namespace lockstep::train {
namespace {

using TensorDict = c10::Dict<std::string, at::Tensor>;

/// The format of torch.save. As torch::pickle_save, but for the tags of types that it gives to dictionaries,
/// which torch.load refuses to restore unless told to trust the file.
std::string to_archive(const TensorDict& tensors) {
  std::string pickled;
  torch::jit::Pickler pickler([&pickled](const char* data, size_t size) { pickled.append(data, size); },
                              nullptr, nullptr, nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(tensors);
  pickler.stop();
  std::string archive;
  caffe2::serialize::PyTorchStreamWriter writer([&archive](const void* data, size_t size) {
    archive.append(static_cast<const char*>(data), size);
    return size;
  });
  writer.writeRecord("data.pkl", pickled.data(), pickled.size());
  size_t number = 0;
  for (const at::Tensor& tensor : pickler.tensorData()) {
    const torch::jit::WriteableTensorData data = torch::jit::getWriteableTensorData(tensor);
    writer.writeRecord("data/" + std::to_string(number++), data.data(), data.sizeInBytes());
  }
  writer.writeEndOfFile();
  return archive;
}

void write(const std::filesystem::path& path, const TensorDict& tensors) {
  write_file_atomically(path, to_archive(tensors));
}

TensorDict parameters_of(const RowTrainee& trainee) {
  TensorDict tensors;
  for (const replica::NamedTensor& parameter : trainee.parameters().trainable()) {
    tensors.insert(parameter.name, parameter.value.detach().contiguous().clone());
  }
  return tensors;
}

}  // namespace

void export_training(const RowPlan& row, int steps, comm::Communicator* group,
                     const std::filesystem::path& folder, launch::Progress& progress) {
  const int rank = group == nullptr ? 0 : group->rank();
  {
    const std::unique_ptr<inputs::Input> input = create_input(row, rank);
    TensorDict batches;
    for (int step = 0; step < steps; ++step) {
      const inputs::Batch& batch = input->next();
      batches.insert(fmt::format("images.{}", step), batch.images.contiguous().clone());
      batches.insert(fmt::format("labels.{}", step), batch.labels.clone());
    }
    write(folder / fmt::format("batches.{}.pt", rank), batches);
  }
  RowTrainee trainee(row, group);
  if (rank == 0) write(folder / "initial.pt", parameters_of(trainee));
  for (int step = 0; step < steps; ++step) trainee.train_one_more(progress);
  if (rank == 0) write(folder / "final.pt", parameters_of(trainee));
}

}  // namespace lockstep::train
