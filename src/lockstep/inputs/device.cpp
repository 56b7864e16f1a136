#include <cstring>
#include <utility>
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

/// `first`: number of the first sample among all samples of all batches; `index`: of the tensor in its batch.
at::Tensor random_tensor(const Description& described, const InputOptions& options, int64_t first,
                         uint64_t index) {
  const at::Tensor batch = empty_batch(described, options.batch);
  at::Tensor sample = at::empty(described.shape, at::TensorOptions(described.type));
  for (int64_t i = 0; i < options.batch; ++i) {
    at::Generator generator =
        replica::stream_generator(replica::stream_seed(options.seed, "tensor of a sample", index), "sample",
                                  static_cast<uint64_t>(first + i));
    if (at::isFloatingType(described.type)) {
      sample.normal_(described.mean, described.deviation, generator);
    } else {
      sample.random_(described.low, described.high, generator);
    }
    batch.select(0, i).copy_(sample);
  }
  return batch;
}

/// The batches of `device` where InputOptions::described says what their tensors hold: kDeviceBatches for
/// each micro-batch of a step, so that the same ones come again whether ranks or micro-batches share a global
/// batch.
std::vector<Batch> described_batches(const InputOptions& options) {
  std::vector<Batch> batches;
  const int64_t global_batch = options.batch * options.ranks;
  for (int64_t i = 0; i < kDeviceBatches * options.batches_per_step; ++i) {
    const int64_t first = i * global_batch + options.rank * options.batch;
    std::vector<at::Tensor> tensors;
    for (const Description& described : options.described) {
      const at::Tensor tensor = random_tensor(described, options, first, tensors.size());
      tensors.push_back(options.accelerator ? tensor.to(options.accelerator->device()) : tensor);
    }
    batches.push_back(batch_of_tensors(std::move(tensors), options));
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

int64_t Description::bytes_per_sample() const {
  int64_t bytes = static_cast<int64_t>(c10::elementSize(type));
  for (const int64_t size : shape) bytes *= size;
  return bytes;
}

at::Tensor empty_batch(const Description& described, int64_t batch) {
  std::vector<int64_t> shape{batch};
  shape.insert(shape.end(), described.shape.begin(), described.shape.end());
  const auto format = described.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  return at::empty(shape, at::TensorOptions(described.type), format);
}

void place_sample(const Description& described, std::span<const char> sample, int64_t index,
                  const at::Tensor& batch) {
  char* to = static_cast<char*>(batch.mutable_data_ptr()) + index * std::ssize(sample);
  if (!described.channels_last) {
    std::memcpy(to, sample.data(), sample.size());
    return;
  }
  const auto channels = static_cast<size_t>(described.shape.front());
  const size_t element = c10::elementSize(described.type);
  const size_t plane = sample.size() / channels;
  for (size_t pixel = 0; pixel < plane; pixel += element) {
    for (size_t channel = 0; channel < channels; ++channel, to += element) {
      std::memcpy(to, sample.data() + channel * plane + pixel, element);
    }
  }
}

Batch batch_of_tensors(std::vector<at::Tensor> tensors, const InputOptions& options) {
  return {.images = tensors.front(),
          .labels = tensors.back(),
          .first_sample = options.rank * options.batch,
          .samples = std::move(tensors)};
}

std::unique_ptr<Input> create_device_input(const InputOptions& options) {
  return std::make_unique<DeviceInput>(options.described.empty() ? drawn_batches(options)
                                                                 : described_batches(options));
}

}  // namespace lockstep::inputs
