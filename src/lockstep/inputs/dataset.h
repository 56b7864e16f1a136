#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lockstep/inputs/input.h"

namespace lockstep::inputs {

/// Real data: what data::open_dataset finds in InputOptions::data, read and decoded ahead by the worker
/// threads of LibTorch's data loader, and put on the device one step ahead, normalised there by the data's
/// own mean and deviation.
///
/// Training: shuffled anew in every epoch and augmented, by (seed, epoch, sample) alone, so that ranks see
/// together what one rank with the joint batch sees; what does not fill a last step is left out, and the next
/// epoch follows by itself. Evaluation: in order, without augmentation, every sample exactly once over
/// all ranks; the last batches may be smaller, and after batches_per_epoch() of them it begins again.
///
/// next() throws Error that names the file for what cannot be read.
std::unique_ptr<Input> create_dataset_input(const InputOptions& options);

/// Throws ConfigError, or Error that names a file, unless create_dataset_input can be expected to succeed for
/// all of these, which have the same data. Opens them once.
void check_dataset(std::span<const InputOptions> all);

/// The data themselves, wherever they lie.
struct DatasetFacts {
  std::string kind;
  int64_t samples = 0;
  int64_t classes = 0;
  /// Of all labels in their order.
  uint64_t labels_hash = 0;
  /// Input::batches_per_epoch of the rank.
  int64_t batches_per_epoch = 0;
};

/// Opens the data once. Throws as check_dataset.
DatasetFacts look_at_dataset(const InputOptions& options);

}  // namespace lockstep::inputs
