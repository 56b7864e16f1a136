#include "lockstep/train/row_input.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/inputs/dataset.h"
#include "lockstep/inputs/device.h"
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
  options.batches_per_step = row.accumulate;
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

InputFacts look_at_input(const RowPlan& row, bool evaluates) {
  if (row.input != "dataset") {
    return {.steps_per_epoch = std::max<int64_t>(1, inputs::kDeviceBatches / row.accumulate), .data = ""};
  }
  inputs::InputOptions options = input_options_of(row);
  const inputs::DatasetFacts training = inputs::look_at_dataset(options);
  if (evaluates) {
    options.evaluation = true;
    inputs::check_dataset({&options, 1});
  }
  return {.steps_per_epoch = training.batches_per_epoch / row.accumulate,
          .data = fmt::format("{}, {} samples in {} classes, labels #{:016x}", training.kind,
                              training.samples, training.classes, training.labels_hash)};
}

}  // namespace lockstep::train
