#include "lockstep/inputs/staged.h"

#include <cstring>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "lockstep/replica/own_stream.h"

namespace lockstep::inputs {
namespace {

at::Tensor per_channel(const std::array<float, 3>& values, int64_t channels, at::Device device) {
  const at::Tensor all = at::empty({1, channels, 1, 1}, at::kFloat);
  for (int64_t c = 0; c < channels; ++c) {
    all.mutable_data_ptr<float>()[c] = values.at(static_cast<size_t>(c));
  }
  return all.to(device);
}

at::Device gpu_of(const InputOptions& options) {
  return options.accelerator->device();
}

/// Also selects the GPU for the calling thread.
at::Device enter_gpu_of(const InputOptions& options) {
  options.accelerator->enter_thread();
  return gpu_of(options);
}

ChannelScaling scaling_in(c10::Stream stream, const InputOptions& options, const feed::Scaling& scaling) {
  const c10::StreamGuard in_stream(stream);
  return {scaling, options.channels, gpu_of(options)};
}

/// Copies batches from host memory to a GPU while it trains: through pinned memory, as 8-bit pixels, in a
/// stream of its own, which also normalizes them. Used by one thread, except hand_over.
///
///   host memory --memcpy--> pinned memory --copy--> pixels on the GPU --normalized--> StagedBatch
///                                                |                                |
///                                             copied_                    StagedBatch::arrived
class GpuStage {
 public:
  /// Call on the thread that will call put.
  GpuStage(const InputOptions& options, const feed::Scaling& scaling)
      : options_(options),
        own_stream_(enter_gpu_of(options)),
        stream_(own_stream_.get()),
        scaling_(scaling_in(stream_, options, scaling)),
        pinned_pixels_(options.accelerator->pinned(
            {options.batch, options.image_size, options.image_size, options.channels}, at::kByte)),
        pinned_labels_(options.accelerator->pinned({options.batch}, at::kLong)),
        copied_(gpu_of(options).type()) {}
  /// Waits for the last copy.
  ~GpuStage() {
    try {
      copied_.synchronize();
    } catch (...) {
      // The GPU has failed, which the training thread reports, and no longer reads the memory.
    }
  }
  GpuStage(const GpuStage&) = delete;
  GpuStage& operator=(const GpuStage&) = delete;

  /// Starts to copy a batch. `host` may be reused when this returns; it waits at most for the copy of the
  /// batch before.
  void put(const HostBatch& host, StagedBatch& batch) {
    const at::NoGradGuard no_grad;
    const c10::StreamGuard in_stream(stream_);
    copied_.synchronize();
    const at::Tensor pixels = pinned_pixels_.narrow(0, 0, host.batch);
    const at::Tensor labels = pinned_labels_.narrow(0, 0, host.batch);
    std::memcpy(pixels.mutable_data_ptr(), host.pixels, pixels.nbytes());
    std::memcpy(labels.mutable_data_ptr(), host.labels, labels.nbytes());
    // New tensors, since the receiver of the old ones may have kept them.
    const at::Tensor pixels_there = to_gpu(pixels);
    batch.labels = to_gpu(labels);
    copied_.record(stream_);
    batch.images = normalized(pixels_there, scaling_, options_.memory_format);
    batch.first_sample = options_.rank * options_.batch;
    if (!batch.arrived) batch.arrived.emplace(gpu_of(options_).type());
    batch.arrived->record(stream_);
  }

  /// For the training thread: work that its stream gets from now on starts after the batch has arrived, and
  /// the batch's memory is reused only after that work.
  static void hand_over(StagedBatch& batch) {
    if (!batch.arrived) return;
    const at::Device gpu = batch.images.device();
    const c10::Stream user = c10::impl::VirtualGuardImpl(gpu.type()).getStream(gpu);
    batch.arrived->block(user);
    batch.images.record_stream(user);
    batch.labels.record_stream(user);
  }

 private:
  at::Tensor to_gpu(const at::Tensor& pinned) const {
    return pinned.to(gpu_of(options_), pinned.scalar_type(), /*non_blocking=*/true);
  }

  InputOptions options_;
  const replica::OwnStream own_stream_;
  const c10::Stream stream_;
  ChannelScaling scaling_;
  /// Pinned host memory for a whole batch.
  at::Tensor pinned_pixels_, pinned_labels_;
  /// Completes when the GPU has read both.
  c10::Event copied_;
};

}  // namespace

ChannelScaling::ChannelScaling(const feed::Scaling& scaling, int64_t channels, at::Device device)
    : scale(per_channel(scaling.scale, channels, device)),
      shift(per_channel(scaling.shift, channels, device)) {}

at::Tensor normalized(const at::Tensor& pixels, const ChannelScaling& scaling,
                      at::MemoryFormat memory_format) {
  const at::NoGradGuard no_grad;
  const at::Tensor planes = pixels.permute({0, 3, 1, 2});
  at::Tensor images = at::empty(planes.sizes(), pixels.options().dtype(at::kFloat), memory_format);
  at::mul_out(images, planes, scaling.scale);
  return images.add_(scaling.shift);
}

feed::BatchShape shape_of(const InputOptions& options) {
  return {.batch = options.batch, .channels = options.channels, .image_size = options.image_size};
}

feed::QueueUse queue_of(const InputOptions& options, const char* name, int capacity, int producers) {
  int64_t bytes = 0;
  for (const Description& described : options.described)
    bytes += options.batch * described.bytes_per_sample();
  return {.name = name,
          .capacity = capacity,
          .producers = producers,
          .images_per_batch = options.batch,
          .bytes_per_batch = options.described.empty() ? shape_of(options).bytes() : bytes};
}

HostQueue::HostQueue(feed::QueueUse use, const char* thread_name, std::function<Fill()> make_fill,
                     std::optional<int64_t> batches_per_epoch)
    : batches_per_epoch_(batches_per_epoch),
      ahead_(std::move(use), thread_name, [this, make_fill = std::move(make_fill)](auto& ring) {
        const Fill fill = make_fill();
        while (auto place = ring.claim()) {
          fill(first_ + place->number, *place->slot);
          ring.publish(*place);
        }
      }) {}

std::optional<HostBatch> HostQueue::next() {
  const HostMemory* memory = ahead_.next();
  if (memory == nullptr) return std::nullopt;
  return memory->view();
}

StagedInput::StagedInput(const InputOptions& options, const feed::Scaling& scaling,
                         std::unique_ptr<HostSource> source)
    : options_(options),
      scaling_(scaling),
      source_(std::move(source)),
      staged_(queue_of(options, "staged", 1, 1), "ls-stager", [this](auto& ring) { stage(ring); }) {}

StagedInput::~StagedInput() {
  // Close both: the stager waits for room in the ring or for the source.
  staged_.close();
  source_->stop();
}

const Batch& StagedInput::next() {
  StagedBatch& batch = *staged_.next();
  GpuStage::hand_over(batch);
  return batch;
}

std::vector<feed::QueueUse> StagedInput::queues() const {
  std::vector<feed::QueueUse> all = source_->queues();
  all.push_back(staged_.use());
  return all;
}

void StagedInput::stage(Ahead<StagedBatch>::Ring& staged) {
  std::optional<GpuStage> gpu;
  if (options_.accelerator && !options_.accelerator->device().is_cpu()) {
    const std::scoped_lock lock(on_gpu_);
    gpu.emplace(options_, scaling_);
  }
  while (auto place = staged.claim()) {
    const std::optional<HostBatch> host = source_->next();
    if (!host) return;
    // The work starts here: waiting for the source is none.
    place->begin_s = now_s();
    if (!gpu) {
      normalize(*host, *place->slot);
    } else {
      const std::scoped_lock lock(on_gpu_);
      gpu->put(*host, *place->slot);
    }
    staged.publish(*place);
  }
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
  // Interleaved pixels are channels_last already; otherwise each image is split into planes.
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
