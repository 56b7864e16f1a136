#include "lockstep/inputs/staged.h"

#include <cstring>

#include <pthread.h>

#include <ATen/ops/empty.h>

#include "lockstep/base/error.h"
#include "lockstep/inputs/gpu_stage.h"

namespace lockstep::inputs {

feed::BatchShape shape_of(const InputOptions& options) {
  return {.batch = options.batch, .channels = options.channels, .image_size = options.image_size};
}

feed::QueueUse queue_of(const InputOptions& options, const char* name, int capacity, int producers) {
  return {.name = name,
          .capacity = capacity,
          .producers = producers,
          .images_per_batch = options.batch,
          .bytes_per_batch = shape_of(options).bytes()};
}

void name_this_thread(const char* name) {
  ::pthread_setname_np(::pthread_self(), name);
}

StagedInput::StagedInput(const InputOptions& options, const feed::Scaling& scaling,
                         std::unique_ptr<HostSource> source)
    : options_(options),
      scaling_(scaling),
      source_(std::move(source)),
      staged_(queue_of(options, "staged", 1, 1)) {}

StagedInput::~StagedInput() {
  // Both, since the stager waits for room in the ring or for the source.
  staged_.close();
  source_->stop();
  if (thread_.joinable()) thread_.join();
}

const Batch& StagedInput::next() {
  if (!thread_.joinable()) thread_ = std::thread([this] { stage(); });
  StagedBatch& batch = *staged_.next();
  GpuStage::hand_over(batch);
  return batch;
}

std::vector<feed::QueueUse> StagedInput::queues() const {
  std::vector<feed::QueueUse> all = source_->queues();
  all.push_back(staged_.use());
  return all;
}

void StagedInput::stage() {
  name_this_thread("ls-stager");
  try {
    const std::unique_ptr<GpuStage> gpu = open_gpu();
    while (auto place = staged_.claim()) {
      const std::optional<HostBatch> host = source_->next();
      if (!host) return;
      // Work begins here: waiting for the source is not the stager's.
      place->begin_s = now_s();
      if (gpu == nullptr) {
        normalize(*host, *place->slot);
      } else {
        const std::scoped_lock lock(on_gpu_);
        gpu->put(*host, *place->slot);
      }
      staged_.publish(*place);
    }
  } catch (...) {
    staged_.fail(std::current_exception());
  }
}

std::unique_ptr<GpuStage> StagedInput::open_gpu() {
  if (!options_.accelerator || options_.accelerator->device().is_cpu()) return nullptr;
  const std::scoped_lock lock(on_gpu_);
  return std::make_unique<GpuStage>(options_, scaling_);
}

void StagedInput::normalize(const HostBatch& host, Batch& batch) const {
  // New tensors, since the receiver of the old ones may have kept them.
  batch.images = at::empty({host.batch, options_.channels, options_.image_size, options_.image_size},
                           at::kFloat, std::nullopt, std::nullopt, std::nullopt, options_.memory_format);
  batch.labels = at::empty({host.batch}, at::kLong);
  batch.first_sample = options_.rank * options_.batch;
  std::memcpy(batch.labels.mutable_data_ptr<int64_t>(), host.labels,
              static_cast<size_t>(host.batch) * sizeof(int64_t));
  auto* out = batch.images.mutable_data_ptr<float>();
  const auto channels = static_cast<int>(options_.channels);
  const int64_t pixels = options_.image_size * options_.image_size;
  // Pixels come interleaved, which is channels_last already; otherwise image by image into planes.
  if (options_.memory_format == at::MemoryFormat::ChannelsLast) {
    feed::normalize_interleaved(host.pixels, host.batch * pixels, channels, scaling_, out);
    return;
  }
  for (int64_t i = 0; i < host.batch; ++i) {
    const int64_t at = i * pixels * channels;
    feed::normalize_planar(host.pixels + at, pixels, channels, scaling_, out + at);
  }
}

}  // namespace lockstep::inputs
