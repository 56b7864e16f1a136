#pragma once

#include <cstdint>

#include "lockstep/cuda_kernels/operations.h"

namespace lockstep::cuda_kernels {

/// Values that a block updates at a time: eight for each thread.
constexpr int64_t kChunk = int64_t{kThreads} * kGroup;

inline int64_t chunks_of(const SgdUpdate& update) {
  int64_t chunks = 0;
  for (int i = 0; i < update.tensors; ++i) chunks += (update.of[i].size + kChunk - 1) / kChunk;
  return chunks;
}

/// The update of many tensors in one pass. Blocks take chunks of kChunk values in turn, counted over all
/// tensors; every tensor begins with a chunk of its own. C: the type of the low-precision copies. Reads
/// parameter, gradient and momentum once, and writes parameter, momentum and copy once.
template <typename C>
struct Sgd {
  struct Shared {};
  static constexpr int kBlocksPerProcessor = 4;

  SgdUpdate update;
  int64_t chunks;
  int32_t blocks;

  LOCKSTEP_KERNEL void operator()(int block, Shared& /*shared*/) const {
    for_threads([&](int thread) {
      if (update.skip != nullptr && *update.skip != 0) return;
      const float rate = update.rate_on_device != nullptr ? *update.rate_on_device : update.rate;
      int tensor = 0;
      int64_t before = 0;
      for (int64_t chunk = block; chunk < chunks; chunk += blocks) {
        int64_t own = (update.of[tensor].size + kChunk - 1) / kChunk;
        while (chunk >= before + own) {
          before += own;
          own = (update.of[++tensor].size + kChunk - 1) / kChunk;
        }
        update_values(update.of[tensor], (chunk - before) * kChunk + int64_t{thread} * kGroup, rate);
      }
    });
  }

 private:
  LOCKSTEP_KERNEL static bool is_aligned(const void* address) {
    return reinterpret_cast<uintptr_t>(address) % 16 == 0;
  }

  /// The values from `begin` on, eight at most.
  LOCKSTEP_KERNEL void update_values(const SgdTensor& tensor, int64_t begin, float rate) const {
    const int64_t left = tensor.size - begin;
    if (left <= 0) return;
    const bool aligned = is_aligned(tensor.parameter) && is_aligned(tensor.gradient) &&
                         is_aligned(tensor.momentum) && is_aligned(tensor.copy);
    const Access access{aligned && left >= kGroup, left < kGroup ? static_cast<int>(left) : kGroup};
    const bool has_momentum = tensor.momentum != nullptr;
    const Group<float> gradients = load(tensor.gradient + begin, access);
    Group<float> parameters = load(tensor.parameter + begin, access);
    Group<float> momenta{};
    if (has_momentum && !update.first_step) momenta = load(tensor.momentum + begin, access);
    Group<C> copies{};
    for_lanes([&](int lane) {
      float& parameter = parameters.values[lane];
      float& momentum = momenta.values[lane];
      const float gradient = update.factor * gradients.values[lane] + update.weight_decay * parameter;
      float direction = gradient;
      if (has_momentum) {
        momentum = update.first_step ? gradient : update.momentum * momentum + gradient;
        direction = update.nesterov ? gradient + update.momentum * momentum : momentum;
      }
      parameter -= rate * direction;
      copies.values[lane] = rounded<C>(parameter);
    });
    store(parameters, tensor.parameter + begin, access);
    if (has_momentum) store(momenta, tensor.momentum + begin, access);
    if (tensor.copy != nullptr) store(copies, static_cast<C*>(tensor.copy) + begin, access);
  }
};

/// Eight values of the images per thread and turn, so that they are written 16 bytes at a time. A pixel has
/// three bytes as a rule, so bytes are read one by one; neighboring threads read neighboring bytes.
template <typename T>
struct ConvertPixels {
  struct Shared {};
  static constexpr int kBlocksPerProcessor = 4;

  PixelConversion conversion;
  int32_t blocks;

  LOCKSTEP_KERNEL void operator()(int block, Shared& /*shared*/) const {
    for_threads([&](int thread) {
      const int64_t values = conversion.pixels * conversion.image_channels;
      const int64_t stride = int64_t{blocks} * kThreads * kGroup;
      const bool aligned = reinterpret_cast<uintptr_t>(conversion.to) % 16 == 0;
      for (int64_t first = (int64_t{block} * kThreads + thread) * kGroup; first < values; first += stride) {
        const int64_t left = values - first;
        convert(first, {aligned && left >= kGroup, left < kGroup ? static_cast<int>(left) : kGroup});
      }
    });
  }

 private:
  LOCKSTEP_KERNEL void convert(int64_t first, Access access) const {
    int64_t pixel = first / conversion.image_channels;
    int channel = static_cast<int>(first - pixel * conversion.image_channels);
    Group<T> group{};
    for_lanes([&](int lane) {
      if (lane >= access.lanes) return;
      float value = 0;
      if (channel < conversion.channels) {
        value = static_cast<float>(conversion.from[pixel * conversion.channels + channel]) *
                    pick(conversion.scale, channel) +
                pick(conversion.shift, channel);
      }
      group.values[lane] = rounded<T>(value);
      if (++channel == conversion.image_channels) {
        channel = 0;
        ++pixel;
      }
    });
    store(group, static_cast<T*>(conversion.to) + first, access);
  }

  /// values[channel], from registers.
  LOCKSTEP_KERNEL static float pick(const float (&values)[kMostPixelChannels], int channel) {
    return channel == 0 ? values[0] : channel == 1 ? values[1] : channel == 2 ? values[2] : values[3];
  }
};

}  // namespace lockstep::cuda_kernels
