#include "lockstep/inputs/gpu_stage.h"

#include <cstring>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

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
c10::Stream own_stream(const InputOptions& options) {
  options.accelerator->enter_thread();
  return c10::impl::VirtualGuardImpl(gpu_of(options).type()).getStreamFromGlobalPool(gpu_of(options));
}

ChannelScaling scaling_in(c10::Stream stream, const InputOptions& options, const feed::Scaling& scaling) {
  const c10::StreamGuard in_stream(stream);
  return {scaling, options.channels, gpu_of(options)};
}

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

GpuStage::GpuStage(const InputOptions& options, const feed::Scaling& scaling)
    : options_(options),
      stream_(own_stream(options)),
      scaling_(scaling_in(stream_, options, scaling)),
      pinned_pixels_(options.accelerator->pinned(
          {options.batch, options.image_size, options.image_size, options.channels}, at::kByte)),
      pinned_labels_(options.accelerator->pinned({options.batch}, at::kLong)),
      copied_(gpu_of(options).type()) {}

GpuStage::~GpuStage() {
  try {
    copied_.synchronize();
  } catch (...) {
    // The GPU has failed, which the training thread reports, and no longer reads the memory.
  }
}

void GpuStage::put(const HostBatch& host, StagedBatch& batch) {
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

at::Tensor GpuStage::to_gpu(const at::Tensor& pinned) const {
  return pinned.to(gpu_of(options_), pinned.scalar_type(), /*non_blocking=*/true);
}

void GpuStage::hand_over(StagedBatch& batch) {
  if (!batch.arrived) return;
  const at::Device gpu = batch.images.device();
  const c10::Stream user = c10::impl::VirtualGuardImpl(gpu.type()).getStream(gpu);
  batch.arrived->block(user);
  batch.images.record_stream(user);
  batch.labels.record_stream(user);
}

}  // namespace lockstep::inputs
