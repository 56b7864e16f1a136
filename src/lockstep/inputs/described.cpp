#include <ATen/ops/empty.h>

#include "lockstep/inputs/sources.h"
#include "lockstep/replica/random.h"

namespace lockstep::inputs {
namespace {

/// `first`: number of the first sample among all samples of all batches; `index`: of the tensor in its batch.
at::Tensor random_tensor(const Description& described, const InputOptions& options, int64_t first,
                         uint64_t index) {
  std::vector<int64_t> shape{options.batch};
  shape.insert(shape.end(), described.shape.begin(), described.shape.end());
  const auto format = described.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  const at::TensorOptions with_type(described.type);
  at::Tensor batch = at::empty(shape, with_type, format);
  at::Tensor sample = at::empty(described.shape, with_type);
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

std::vector<Batch> described_batches(const InputOptions& options) {
  std::vector<Batch> batches;
  const int64_t global_batch = options.batch * options.ranks;
  for (int64_t i = 0; i < kDeviceBatches * options.batches_per_step; ++i) {
    const int64_t first_in_global = options.rank * options.batch;
    Batch batch{.first_sample = first_in_global};
    for (const Description& described : options.described) {
      batch.samples.push_back(
          random_tensor(described, options, i * global_batch + first_in_global, batch.samples.size()));
    }
    batch.images = batch.samples.front();
    batch.labels = batch.samples.back();
    batches.push_back(std::move(batch));
  }
  return batches;
}

}  // namespace lockstep::inputs
