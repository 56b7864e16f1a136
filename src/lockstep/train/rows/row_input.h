#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <c10/core/MemoryFormat.h>

#include "lockstep/inputs/input.h"
#include "lockstep/network_file/network_file.h"
#include "lockstep/train/rows/sweep.h"

namespace lockstep::train {

/// "channels_last" or "contiguous". Throws ConfigError with the nearest names.
c10::MemoryFormat parse_memory_format(const std::string& name);

/// The tensors of a batch for a network from a file: inputs, then targets.
std::vector<inputs::Description> descriptions_of(const network_file::NetworkFile& file);

/// Options of the input of the row's rank 0. Where one rank has the devices of all, its batch is that of all.
inputs::InputOptions input_options_of(const RowPlan& row);

/// Throws ConfigError where an input lacks the data or the address that it needs, has a flag that is of no
/// use to it, or data that do not suit a row (other classes, too few samples); and Error that names an
/// unreadable file.
void check_inputs(const std::vector<RowPlan>& rows);

/// Facts on a row's input that a training needs before it begins.
struct InputFacts {
  /// One pass over the data; where there are no passes, all batches that there are.
  int64_t steps_per_epoch = 1;
  /// The data in words, wherever they lie; empty where there are none.
  std::string data;
};

/// Opens the training data, and the evaluation data if `evaluates`. Throws as check_inputs.
InputFacts look_at_input(const RowPlan& row, bool evaluates);

}  // namespace lockstep::train
