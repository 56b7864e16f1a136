#include "lockstep/train/training/export_training.h"

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/inputs/input.h"
#include "lockstep/train/rows/row_input.h"
#include "lockstep/train/rows/row_trainee.h"
#include "lockstep/train/training/tensor_file.h"

namespace lockstep::train {

void export_training(const RowPlan& row, int steps, const RankGroup& group,
                     const std::filesystem::path& folder, launch::Progress& progress) {
  const int rank = group.rank();
  {
    std::vector<std::string> names{"images", "labels"};
    if (const auto described = input_options_of(row).described; !described.empty()) {
      names.clear();
      for (const inputs::Description& one : described) names.push_back(one.name);
    }
    const std::unique_ptr<inputs::Input> input = create_input(row, rank);
    std::vector<replica::NamedTensor> batches;
    for (int number = 0; number < steps * row.accumulate; ++number) {
      const std::vector<at::Tensor> tensors = input->next().tensors();
      // Copies: the input may reuse its memory.
      for (size_t i = 0; i < tensors.size(); ++i)
        batches.push_back({fmt::format("{}.{}", names[i], number), tensors[i].clone()});
    }
    write_tensors(folder / fmt::format("batches.{}.safetensors", rank), batches);
  }
  RowTrainee trainee(row, group);
  if (rank == 0) write_tensors(folder / "initial.safetensors", trainee.parameters().trainable());
  for (int step = 0; step < steps; ++step) trainee.train_one_more(progress);
  if (rank == 0) write_tensors(folder / "final.safetensors", trainee.parameters().trainable());
}

}  // namespace lockstep::train
