#include "lockstep/train/training/export_training.h"

#include <string>

#include <fmt/format.h>

#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>

#include "lockstep/base/file.h"
#include "lockstep/train/rows/row_trainee.h"
#include "lockstep/train/training/archive.h"

namespace lockstep::train {
namespace {

using TensorDict = c10::Dict<std::string, at::Tensor>;

void write(const std::filesystem::path& path, const TensorDict& tensors) {
  write_file_atomically(path, to_archive(at::IValue(tensors)));
}

TensorDict parameters_of(const RowTrainee& trainee) {
  TensorDict tensors;
  for (const replica::NamedTensor& parameter : trainee.parameters().trainable()) {
    tensors.insert(parameter.name, parameter.value.detach().cpu().contiguous().clone());
  }
  return tensors;
}

}  // namespace

void export_training(const RowPlan& row, int steps, const RankGroup& group,
                     const std::filesystem::path& folder, launch::Progress& progress) {
  const int rank = group.rank();
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
