#include "lockstep/train/training/export_training.h"

#include <fmt/format.h>

#include "lockstep/train/rows/row_trainee.h"
#include "lockstep/train/training/tensor_file.h"

namespace lockstep::train {

void export_training(const RowPlan& row, int steps, const RankGroup& group,
                     const std::filesystem::path& folder, launch::Progress& progress) {
  const int rank = group.rank();
  {
    const std::unique_ptr<inputs::Input> input = create_input(row, rank);
    std::vector<replica::NamedTensor> batches;
    for (int step = 0; step < steps; ++step) {
      const inputs::Batch& batch = input->next();
      // Copies: the input may reuse its memory.
      batches.push_back({fmt::format("images.{}", step), batch.images.clone()});
      batches.push_back({fmt::format("labels.{}", step), batch.labels.clone()});
    }
    write_tensors(folder / fmt::format("batches.{}.safetensors", rank), batches);
  }
  RowTrainee trainee(row, group);
  if (rank == 0) write_tensors(folder / "initial.safetensors", trainee.parameters().trainable());
  for (int step = 0; step < steps; ++step) trainee.train_one_more(progress);
  if (rank == 0) write_tensors(folder / "final.safetensors", trainee.parameters().trainable());
}

}  // namespace lockstep::train
