#pragma once

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

#include "lockstep/base/registry.h"

namespace lockstep::inputs {

struct Batch {
  /// [batch, channels, size, size], on the device, in the requested memory format.
  at::Tensor images;
  /// [batch], int64 in [0, classes).
  at::Tensor labels;
  /// Index of the first sample in the global batch of this step.
  int64_t first_sample = 0;
};

/// Where batches come from.
class Input {
 public:
  virtual ~Input() = default;
  /// The next batch, already on the device. Called by one thread.
  virtual const Batch& next() = 0;
};

struct InputOptions {
  int64_t batch = 32;
  int64_t channels = 3;
  int64_t image_size = 224;
  int64_t classes = 1000;
  uint64_t seed = 1;
  /// This rank's place among the ranks that share a global batch.
  int rank = 0;
  int ranks = 1;
  at::MemoryFormat memory_format = at::MemoryFormat::ChannelsLast;
};

struct InputInfo {
  std::string description;
  std::unique_ptr<Input> (*create)(const InputOptions& options) = nullptr;
};

/// All inputs by name. `device`: a few random batches made once on the device and used in turn; sample i of
/// the global batch has the same values whatever the number of ranks.
const Registry<InputInfo>& registry();

}  // namespace lockstep::inputs
