#include <vector>

#include <ATen/ops/empty.h>

#include "lockstep/inputs/sources.h"
#include "lockstep/replica/random.h"

namespace lockstep::inputs {
namespace {

using replica::stream_generator;
using replica::stream_seed;

/// Makes a batch in host memory. `first` is the number of its first sample among all samples of all batches.
Batch make_batch(const InputOptions& options, int64_t first) {
  Batch batch;
  batch.images = at::empty({options.batch, options.channels, options.image_size, options.image_size},
                           at::kFloat, std::nullopt, std::nullopt, std::nullopt, options.memory_format);
  batch.labels = at::empty({options.batch}, at::kLong);
  batch.first_sample = options.rank * options.batch;

  // Draw in the contiguous layout and copy, so that values do not depend on the memory format.
  at::Tensor image = at::empty({options.channels, options.image_size, options.image_size}, at::kFloat);
  auto* labels = batch.labels.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < options.batch; ++i) {
    const auto sample = static_cast<uint64_t>(first + i);
    image.normal_(0, 1, stream_generator(options.seed, "image", sample));
    batch.images.select(0, i).copy_(image);
    labels[i] = static_cast<int64_t>(stream_seed(options.seed, "label", sample) %
                                     static_cast<uint64_t>(options.classes));
  }
  return batch;
}

std::vector<Batch> drawn_batches(const InputOptions& options) {
  std::vector<Batch> batches;
  const int64_t global_batch = options.batch * options.ranks;
  for (int64_t i = 0; i < kDeviceBatches; ++i) {
    Batch batch = make_batch(options, i * global_batch + options.rank * options.batch);
    if (options.accelerator) {
      batch.images = batch.images.to(options.accelerator->device());
      batch.labels = batch.labels.to(options.accelerator->device());
    }
    batches.push_back(std::move(batch));
  }
  return batches;
}

/// A few batches on the device, handed out in turn.
class DeviceInput : public Input {
 public:
  explicit DeviceInput(std::vector<Batch> batches) : batches_(std::move(batches)) {}

  const Batch& next() override {
    const Batch& batch = batches_[next_];
    next_ = (next_ + 1) % batches_.size();
    return batch;
  }

 private:
  std::vector<Batch> batches_;
  size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Input> create_device_input(const InputOptions& options) {
  return std::make_unique<DeviceInput>(options.described.empty() ? drawn_batches(options)
                                                                 : described_batches(options));
}

}  // namespace lockstep::inputs
