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
  static constexpr int kColumns = kMostColumnsOfSums;

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
    finish_sums(tiling, block, sums, sums_in(norm.workspace), shared, finish);
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
  static constexpr int kColumns = kMostColumns;

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

/// The sum of two gradients, rounded as autograd rounds it.
template <typename T>
LOCKSTEP_KERNEL Group<T> sum_of(const Group<T>& dy, const Group<T>& more) {
  Group<T> sum{};
  for_lanes([&](int lane) {
    sum.values[lane] = rounded<T>(as_float(dy.values[lane]) + as_float(more.values[lane]));
  });
  return sum;
}

/// The gradient where the mask passes, 0 elsewhere.
template <typename T>
LOCKSTEP_KERNEL Group<T> masked(const Group<T>& gradient, uint32_t passes) {
  Group<T> left{};
  for_lanes([&](int lane) {
    if ((passes >> lane & 1u) != 0) left.values[lane] = gradient.values[lane];
  });
  return left;
}

/// The mask of a group; all ones without a mask.
LOCKSTEP_KERNEL uint32_t mask_of(const uint8_t* mask, const Tiling& tiling, int64_t row, int group) {
  return mask == nullptr ? 0xffu : mask[row * tiling.groups + group];
}

/// First pass: the gradients of weight and bias, from the sums of dz, the gradient after addition and mask,
/// and of dz * (x - mean). With a second gradient it writes dz, so that the second pass reads one tensor
/// instead of two and the mask.
template <typename T>
struct NormGradientSums {
  using Shared = SharedSums;
  static constexpr int kBlocksPerProcessor = 2;
  static constexpr int kColumns = kMostColumnsOfSums;

  NormBackward norm;
  Tiling tiling;

  LOCKSTEP_KERNEL void operator()(int block, Shared& shared) const {
    PerThread<ThreadSums> sums;
    for_threads([&](int thread) { sums[thread] = add_up(place_of(tiling, block, thread)); });
    const auto finish = [&](int channel, double first, double second) {
      norm.of_bias[channel] = static_cast<float>(first);
      norm.of_weight[channel] = static_cast<float>(second * norm.inverse_deviation[channel]);
    };
    finish_sums(tiling, block, sums, sums_in(norm.workspace), shared, finish);
  }

 private:
  struct Read {
    Group<T> dy;
    Group<T> more;
    Group<T> x;
    uint32_t passes;
  };

  LOCKSTEP_KERNEL ThreadSums add_up(const Place& place) const {
    ThreadSums sums;
    if (!place.busy) return sums;
    const Lanes mean = lanes_of(norm.mean, place.channel(), place.access);
    const bool forked = norm.more != nullptr;
    for_rows<2>(
        tiling, place,
        [&](int64_t row) {
          const int64_t offset = row * tiling.shape.channels + place.channel();
          Read read{};
          read.dy = load(static_cast<const T*>(norm.dy) + offset, place.access);
          if (forked) read.more = load(static_cast<const T*>(norm.more) + offset, place.access);
          read.x = load(static_cast<const T*>(norm.x) + offset, place.access);
          read.passes = mask_of(norm.mask, tiling, row, place.group);
          return read;
        },
        [&](int64_t row, const Read& read) {
          const Group<T> dz = masked(forked ? sum_of(read.dy, read.more) : read.dy, read.passes);
          for_lanes([&](int lane) {
            const float gradient = as_float(dz.values[lane]);
            sums.first[lane] += gradient;
            sums.second[lane] += gradient * (as_float(read.x.values[lane]) - mean[lane]);
          });
          if (!forked) return;
          store(dz, static_cast<T*>(norm.dz) + row * tiling.shape.channels + place.channel(), place.access);
        });
    return sums;
  }
};

/// Second pass: dx, and dz where the first one has not written it. With n values per channel,
///
///     dx = weight * inverse * (dz - of_bias / n - (x - mean) * inverse * of_weight / n)
template <typename T>
struct NormGradientApply {
  struct Shared {};
  static constexpr int kBlocksPerProcessor = 2;
  static constexpr int kColumns = kMostColumns;

  NormBackward norm;
  Tiling tiling;

  LOCKSTEP_KERNEL void operator()(int block, Shared& /*shared*/) const {
    for_threads([&](int thread) { apply(place_of(tiling, block, thread)); });
  }

 private:
  /// dx = scale * dz + slope * (x - mean) + offset, per channel.
  struct Factors {
    Lanes mean;
    Lanes scale;
    Lanes slope;
    Lanes offset;
  };

  struct Read {
    Group<T> dz;
    Group<T> x;
  };

  LOCKSTEP_KERNEL Factors factors(const Place& place) const {
    const Lanes inverse = lanes_of(norm.inverse_deviation, place.channel(), place.access);
    const Lanes of_weight = lanes_of(norm.of_weight, place.channel(), place.access);
    const Lanes of_bias = lanes_of(norm.of_bias, place.channel(), place.access);
    Factors factors{};
    factors.mean = lanes_of(norm.mean, place.channel(), place.access);
    factors.scale = lanes_of(norm.weight, place.channel(), place.access);
    const float share = 1.0f / static_cast<float>(tiling.shape.rows);
    for_lanes([&](int lane) {
      factors.scale[lane] *= inverse[lane];
      factors.slope[lane] = -factors.scale[lane] * inverse[lane] * of_weight[lane] * share;
      factors.offset[lane] = -factors.scale[lane] * of_bias[lane] * share;
    });
    return factors;
  }

  LOCKSTEP_KERNEL void apply(const Place& place) const {
    if (!place.busy) return;
    const Factors by = factors(place);
    const bool summed = norm.more != nullptr;
    const auto* const gradient = static_cast<const T*>(summed ? norm.dz : norm.dy) + place.channel();
    const auto* const x = static_cast<const T*>(norm.x) + place.channel();
    for_rows<2>(
        tiling, place,
        [&](int64_t row) {
          const int64_t offset = row * tiling.shape.channels;
          const uint32_t passes = summed ? 0xffu : mask_of(norm.mask, tiling, row, place.group);
          Read read{};
          read.dz = masked(load(gradient + offset, place.access), passes);
          read.x = load(x + offset, place.access);
          return read;
        },
        [&](int64_t row, const Read& read) {
          Group<T> dx{};
          for_lanes([&](int lane) {
            const float from_mean = as_float(read.x.values[lane]) - by.mean[lane];
            dx.values[lane] = rounded<T>(by.scale[lane] * as_float(read.dz.values[lane]) +
                                         by.slope[lane] * from_mean + by.offset[lane]);
          });
          const int64_t offset = row * tiling.shape.channels + place.channel();
          store(dx, static_cast<T*>(norm.dx) + offset, place.access);
          if (!summed && norm.dz != nullptr) store(read.dz, static_cast<T*>(norm.dz) + offset, place.access);
        });
  }
};

}  // namespace lockstep::cuda_kernels
