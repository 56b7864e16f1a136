#pragma once

#include <cmath>
#include <cstdint>

#include "lockstep/cuda_kernels/channel_sums.h"
#include "lockstep/cuda_kernels/operations.h"

namespace lockstep::cuda_kernels {

/// First pass: mean and deviation of every channel, and the running values. Squares are summed of
/// differences from the channel's value in row 0, so that no digits are lost if the mean is large compared
/// to the deviation. Reads x once.
template <typename T>
struct NormStatistics {
  using Shared = SharedSums;
  static constexpr int kBlocksPerProcessor = 2;

  NormForward norm;
  Tiling tiling;

  LOCKSTEP_KERNEL void operator()(int block, Shared& shared) const {
    PerThread<ThreadSums> sums;
    for_threads([&](int thread) { sums[thread] = moments(place_of(tiling, block, thread)); });
    const double count = static_cast<double>(tiling.shape.rows);
    const auto finish = [&](int channel, double first, double second) {
      const double difference = first / count;
      const double spread = second / count - difference * difference;
      finish_channel(channel, as_float(x()[channel]) + difference, spread > 0 ? spread : 0);
    };
    finish_sums(tiling, block, sums, sums_in(norm.workspace, tiling), shared, finish);
  }

 private:
  LOCKSTEP_KERNEL const T* x() const { return static_cast<const T*>(norm.x); }

  LOCKSTEP_KERNEL ThreadSums moments(const Place& place) const {
    ThreadSums sums;
    if (!place.busy) return sums;
    const T* const in = x() + place.channel();
    const Group<T> shift = load(in, place.access);
    for_rows<4>(
        tiling, place, [&](int64_t row) { return load(in + row * tiling.shape.channels, place.access); },
        [&](int64_t /*row*/, const Group<T>& group) {
          for_lanes([&](int lane) {
            const float difference = as_float(group.values[lane]) - as_float(shift.values[lane]);
            sums.first[lane] += difference;
            sums.second[lane] += difference * difference;
          });
        });
    return sums;
  }

  LOCKSTEP_KERNEL void finish_channel(int channel, double mean, double variance) const {
    const double count = static_cast<double>(tiling.shape.rows);
    const double unbiased = tiling.shape.rows > 1 ? variance * count / (count - 1) : variance;
    norm.mean[channel] = static_cast<float>(mean);
    norm.inverse_deviation[channel] = static_cast<float>(1 / sqrt(variance + norm.epsilon));
    blend(norm.running_mean + channel, mean);
    blend(norm.running_variance + channel, unbiased);
  }

  LOCKSTEP_KERNEL void blend(float* running, double value) const {
    *running = static_cast<float>((1 - norm.momentum) * *running + norm.momentum * value);
  }
};

/// Second pass: y and the mask. Reads x and the residual once.
template <typename T>
struct NormApply {
  struct Shared {};
  static constexpr int kBlocksPerProcessor = 2;

  NormForward norm;
  Tiling tiling;

  LOCKSTEP_KERNEL void operator()(int block, Shared& /*shared*/) const {
    for_threads([&](int thread) { normalize(place_of(tiling, block, thread)); });
  }

 private:
  struct Read {
    Group<T> x;
    Group<T> residual;
  };

  LOCKSTEP_KERNEL void normalize(const Place& place) const {
    if (!place.busy) return;
    const Lanes mean = lanes_of(norm.mean, place.channel(), place.access);
    const Lanes bias = lanes_of(norm.bias, place.channel(), place.access);
    Lanes scale = lanes_of(norm.weight, place.channel(), place.access);
    const Lanes inverse = lanes_of(norm.inverse_deviation, place.channel(), place.access);
    for_lanes([&](int lane) { scale[lane] *= inverse[lane]; });
    const auto* const x = static_cast<const T*>(norm.x) + place.channel();
    const auto* const residual = static_cast<const T*>(norm.residual) + place.channel();
    auto* const y = static_cast<T*>(norm.y) + place.channel();
    for_rows<2>(
        tiling, place,
        [&](int64_t row) {
          const int64_t offset = row * tiling.shape.channels;
          Read read{};
          read.x = load(x + offset, place.access);
          if (norm.residual != nullptr) read.residual = load(residual + offset, place.access);
          return read;
        },
        [&](int64_t row, const Read& read) {
          Group<T> made{};
          uint32_t passes = 0;
          for_lanes([&](int lane) {
            const float z = (as_float(read.x.values[lane]) - mean[lane]) * scale[lane] + bias[lane] +
                            as_float(read.residual.values[lane]);
            // False for NaN, which then reaches the loss.
            const bool stops = as_float(rounded<T>(z)) <= 0;
            passes |= (stops ? 0u : 1u) << lane;
            made.values[lane] = rounded<T>(norm.mask != nullptr && stops ? 0.0f : z);
          });
          store(made, y + row * tiling.shape.channels, place.access);
          if (norm.mask != nullptr)
            norm.mask[row * tiling.groups + place.group] = static_cast<uint8_t>(passes);
        });
  }
};

}  // namespace lockstep::cuda_kernels
