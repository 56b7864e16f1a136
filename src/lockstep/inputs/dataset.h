#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lockstep/inputs/input.h"

namespace lockstep::inputs {

/// Real data: the data set that data::open_dataset finds in InputOptions::data. Worker threads read and
/// decode it ahead; it is put on the device one step ahead and normalized there by the data's own mean and
/// deviation.
///
/// Training: shuffled anew in every epoch and augmented, by (seed, epoch, sample) alone, so that the ranks
/// together see the samples that one rank with the joint batch would see. Samples that do not fill a last
/// step are left out, and the next epoch follows by itself. Evaluation: in order, without augmentation, every
/// sample exactly once over all ranks; the last batches may be smaller, and after batches_per_epoch() of them
/// it begins again.
///
/// Where InputOptions::described says what a batch consists of: the tensors of these names in the folder
/// (data::find_tensors), shuffled in the same way and never augmented, read ahead by threads of its own.
///
/// next() throws Error that names a file that cannot be read.
std::unique_ptr<Input> create_dataset_input(const InputOptions& options);

/// Throws ConfigError, or Error that names a file, unless create_dataset_input can be expected to succeed for
/// all of these, which have the same data. Opens them once.
void check_dataset(std::span<const InputOptions> all);

/// Facts about a data set, independent of its folder.
struct DatasetFacts {
  /// What it is, how large, and a hash: "MNIST, 1500 samples in 10 classes, labels #...".
  std::string text;
  /// The rank's Input::batches_per_epoch.
  int64_t batches_per_epoch = 0;
};

/// Opens the data once. Throws like check_dataset.
DatasetFacts look_at_dataset(const InputOptions& options);

// The two for InputOptions::described (stored.cpp). Both throw ConfigError where the folder lacks one of the
// tensors or has it in another type or shape, where these differ in their number of samples, or where there
// are too few for one step.
std::unique_ptr<Input> create_stored_input(const InputOptions& options);
DatasetFacts look_at_stored(const InputOptions& options);

/// Whether the folder has files of tensors, not of images.
bool holds_tensors(const std::string& folder);

}  // namespace lockstep::inputs
