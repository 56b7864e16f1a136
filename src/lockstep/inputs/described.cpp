#include "lockstep/inputs/described.h"

#include <cstring>

#include <ATen/ops/empty.h>

#include "lockstep/inputs/sources.h"
#include "lockstep/replica/random.h"

namespace lockstep::inputs {
namespace {

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

}  // namespace lockstep::inputs
