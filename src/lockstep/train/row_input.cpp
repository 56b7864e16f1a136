#include "lockstep/train/row_input.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/inputs/dataset.h"
#include "lockstep/models/model.h"
#include "lockstep/train/memory_format.h"

namespace lockstep::train {

inputs::InputOptions input_options_of(const RowPlan& row) {
  const models::ModelInfo& model = models::registry().get(row.model);
  const int ranks = training_ranks(row);
  inputs::InputOptions options;
  options.batch = row.batch_per_rank * (row.ranks / ranks);
  options.channels = model.channels;
  options.image_size = row.image_size;
  options.classes = model.classes;
  options.seed = row.seed;
  options.ranks = ranks;
  options.memory_format = parse_memory_format(row.memory_format);
  options.data = row.data;
  return options;
}

void check_inputs(const std::vector<RowPlan>& rows) {
  std::vector<inputs::InputOptions> with_data;
  for (const RowPlan& row : rows) {
    if (row.input == "dataset") {
      with_data.push_back(input_options_of(row));
    } else if (!row.data.empty()) {
      throw ConfigError(fmt::format("--data {} is of no use to the input '{}'", row.data, row.input),
                        "Add --input dataset.");
    }
  }
  inputs::check_dataset(with_data);
}

}  // namespace lockstep::train
