#include "lockstep/kernels/fused_norm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/norm_loops.h"
#include "lockstep/replica/releasable_memory.h"

namespace lockstep::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// An image as blocks of channels, each a plane of pixels for each image (norm_loops.h), in either layout
/// (image_layout.h).
struct Blocks {
  explicit Blocks(const at::Tensor& x)
      : images(x.size(0)),
        blocks(channels_of(x) / channels_per_block()),
        pixels(x.size(2) * x.size(3)),
        width(channels_per_block()),
        stride(x.size(4)) {}

  int64_t offset(int64_t image, int64_t block) const {
    return image * blocks * pixels * width + block * (is_last() ? width : pixels * width);
  }
  /// Number of values of a channel.
  int64_t count() const { return images * pixels; }
  /// Whether all channels of a pixel are next to each other.
  bool is_last() const { return stride > width; }

  int64_t images, blocks, pixels, width;
  /// Values from a pixel to the next.
  int64_t stride;
};

/// Successive pixels of one image and block: the first value, its channel, and the pixels.
struct Run {
  int64_t offset;
  int64_t channel;
  Pixels pixels;
};

/// Calls body(image, block, run) for all runs of an image in channels-last, with the pixels of a run in all
/// blocks one after the other: they lie side by side. Threads share images, or, with few of them, blocks.
/// `again`: from the last image of a thread to its first, because the last one is still in the cache.
template <typename Body>
void for_runs(const Blocks& shape, bool again, const Body& body) {
  const int64_t threads = at::get_num_threads();
  const bool many = shape.images % threads == 0 || shape.images >= 4 * threads;
  const int64_t groups = many ? 1 : shape.blocks;
  at::parallel_for(0, shape.images * groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t part = again ? end - 1 - (i - begin) : i;
      const int64_t image = part / groups, group = part % groups;
      for (int64_t pixel = 0; pixel < shape.pixels; pixel += kPixelsPerRun) {
        const Pixels pixels{std::min(kPixelsPerRun, shape.pixels - pixel), shape.stride};
        for (int64_t block = many ? 0 : group; block < (many ? shape.blocks : group + 1); ++block)
          body(image, block,
               Run{shape.offset(image, block) + pixel * shape.stride, block * shape.width, pixels});
      }
    }
  });
}

/// Runs the two passes of a batch normalization. For every block of channels:
///
///     sum(run, sums)          for every image: the first pass over its pixels
///     finish(block, sums)     once, with the sums over all images, added in the images' order
///     apply(run)              for every image: the second pass
///
/// With enough blocks for all threads, a thread does all of this block by block, so that the second pass
/// finds the data of the first one in its cache. With fewer blocks, threads share the planes of a block, one
/// pass after the other, as they always do in channels-last. Sums are made per plane either way, so neither
/// the number of threads nor the layout changes the bits. With `ranks`, sums are added up over them between
/// the two passes.
template <typename Sum, typename Finish, typename Apply>
void for_blocks(const Blocks& shape, const NormRanks* ranks, const Sum& sum, const Finish& finish,
                const Apply& apply) {
  const auto add_up = [&](const ChannelSums* of_images) {
    ChannelSums all;
    for (int64_t image = 0; image < shape.images; ++image) {
      for (int64_t c = 0; c < shape.width; ++c) {
        all.first[c] += of_images[image].first[c];
        all.second[c] += of_images[image].second[c];
      }
    }
    return all;
  };
  const auto plane = [&](int64_t image, int64_t block) {
    return Run{shape.offset(image, block), block * shape.width, {shape.pixels, shape.stride}};
  };
  const int64_t threads = at::get_num_threads();
  if (ranks == nullptr && !shape.is_last() && (shape.blocks % threads == 0 || shape.blocks >= 4 * threads)) {
    at::parallel_for(0, shape.blocks, 1, [&](int64_t begin, int64_t end) {
      std::vector<ChannelSums> of_images(static_cast<size_t>(shape.images));
      for (int64_t block = begin; block < end; ++block) {
        for (int64_t image = 0; image < shape.images; ++image) {
          of_images[static_cast<size_t>(image)] = {};
          sum(plane(image, block), of_images[static_cast<size_t>(image)]);
        }
        finish(block, add_up(of_images.data()));
        for (int64_t image = 0; image < shape.images; ++image) apply(plane(image, block));
      }
    });
    return;
  }
  const int64_t parts = shape.blocks * shape.images;
  std::vector<ChannelSums> sums(static_cast<size_t>(parts));
  const auto sum_into = [&](int64_t image, int64_t block, const Run& run) {
    sum(run, sums[static_cast<size_t>(block * shape.images + image)]);
  };
  const auto for_planes = [&](bool again, const auto& body) {
    if (shape.is_last()) return for_runs(shape, again, body);
    at::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        const int64_t image = part % shape.images, block = part / shape.images;
        body(image, block, plane(image, block));
      }
    });
  };
  for_planes(false, sum_into);
  std::vector<ChannelSums> totals;
  for (int64_t block = 0; block < shape.blocks; ++block)
    totals.push_back(add_up(sums.data() + block * shape.images));
  if (ranks != nullptr) {
    constexpr int64_t kNumbers = sizeof(ChannelSums) / sizeof(double);
    ranks->sum(at::from_blob(totals.data(), {shape.blocks * kNumbers}, at::kDouble));
  }
  for (int64_t block = 0; block < shape.blocks; ++block) finish(block, totals[static_cast<size_t>(block)]);
  for_planes(true, [&](int64_t, int64_t, const Run& run) { apply(run); });
}

template <typename T>
const T* data_of(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<const T*>(tensor.const_data_ptr()) : nullptr;
}

template <typename T>
T* writable_data_of(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.mutable_data_ptr()) : nullptr;
}

template <typename T>
T* plus(T* data, int64_t offset) {
  return data == nullptr ? nullptr : data + offset;
}

float as_float(float value) {
  return value;
}

float as_float(uint16_t bf16) {
  return std::bit_cast<float>(uint32_t{bf16} << 16);
}

/// Calls body(T()) with the T of NormLoops for the tensor's type.
template <typename Body>
void with_type(const at::Tensor& tensor, const Body& body) {
  if (tensor.scalar_type() == at::kFloat) {
    body(float());
  } else {
    body(uint16_t());
  }
}

/// Rows of a batch's statistics, [4, channels] in fp32. Shift: a value of each channel, which is subtracted
/// before squares are summed, so that no digits are lost if the mean is large compared to the deviation.
/// Scale: weight / deviation.
enum Statistic { kShift, kScale, kMean, kInverseDeviation, kStatistics };

/// Rows of the factors of the gradient (GradientFactors), [3, channels] in fp32.
enum Factor { kGradientFactor, kSlope, kOffset, kFactors };

const float* row_of(const at::Tensor& rows, int row) {
  return rows.const_data_ptr<float>() + row * rows.size(1);
}

float* writable_row_of(const at::Tensor& rows, int row) {
  return rows.mutable_data_ptr<float>() + row * rows.size(1);
}

/// Writes y, updates the running values and returns the batch's statistics.
template <typename T>
at::Tensor normalize(const at::Tensor& x, const at::Tensor& residual, const NormLayer& layer, bool relu,
                     const NormRanks* ranks, const at::Tensor& y) {
  const Blocks shape(x);
  const int64_t width = shape.width;
  const NormLoops<T>& loops = norm_loops<T>();
  const T* const in = data_of<T>(x);
  const T* const added = data_of<T>(residual);
  T* const out = writable_data_of<T>(y);
  const at::TensorOptions fp32 = x.options().dtype(at::kFloat);
  const at::Tensor statistics = at::empty({kStatistics, layer.weight.numel()}, fp32);
  float* const shift = writable_row_of(statistics, kShift);
  float* const scale = writable_row_of(statistics, kScale);
  float* const mean = writable_row_of(statistics, kMean);
  float* const inverse = writable_row_of(statistics, kInverseDeviation);
  const float* const weight = layer.weight.const_data_ptr<float>();
  const float* const bias = layer.bias.const_data_ptr<float>();
  float* const running_mean = layer.running_mean.mutable_data_ptr<float>();
  float* const running_variance = layer.running_variance.mutable_data_ptr<float>();
  const double count = static_cast<double>(shape.count()) * (ranks == nullptr ? 1 : ranks->count);
  const double unbiased = count > 1 ? count / (count - 1) : 1;

  // Sums over ranks need one shift for all of them.
  for (int64_t c = 0; c < shape.blocks * width; ++c)
    shift[c] = ranks != nullptr ? running_mean[c] : as_float(in[shape.offset(0, c / width) + c % width]);
  for_blocks(
      shape, ranks,
      [&](const Run& run, ChannelSums& sums) {
        loops.add_moments(in + run.offset, run.pixels, shift + run.channel, sums);
      },
      [&](int64_t block, const ChannelSums& sums) {
        for (int64_t i = 0; i < width; ++i) {
          const int64_t c = block * width + i;
          const double difference = sums.first[i] / count;
          const double variance = std::max(0.0, sums.second[i] / count - difference * difference);
          const double own_mean = shift[c] + difference;
          const double own_inverse = 1 / std::sqrt(variance + layer.epsilon);
          mean[c] = static_cast<float>(own_mean);
          inverse[c] = static_cast<float>(own_inverse);
          scale[c] = static_cast<float>(weight[c] * own_inverse);
          running_mean[c] =
              static_cast<float>((1 - layer.momentum) * running_mean[c] + layer.momentum * own_mean);
          running_variance[c] = static_cast<float>((1 - layer.momentum) * running_variance[c] +
                                                   layer.momentum * unbiased * variance);
        }
      },
      [&](const Run& run) {
        const int64_t offset = run.offset, c = run.channel;
        loops.normalize(in + offset, plus(added, offset), run.pixels, {mean + c, scale + c, bias + c}, relu,
                        out + offset);
      });
  return statistics;
}

struct Gradients {
  at::Tensor x;
  /// Undefined if there is no residual.
  at::Tensor residual;
  at::Tensor weight;
  at::Tensor bias;
};

/// The input of the backward pass: gradients of the output, and tensors kept by the forward pass.
struct BackwardInput {
  at::Tensor dy;
  /// Gradient of the second output; undefined if there is none.
  at::Tensor more;
  /// The output, to recompute the ReLU's mask; undefined if x suffices for that (no residual) or there is no
  /// ReLU.
  at::Tensor y;
  at::Tensor x;
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor statistics;
  bool has_residual = false;
  bool relu = false;
  const NormRanks* ranks = nullptr;
};

template <typename T>
Gradients backward_of(const BackwardInput& given) {
  const Blocks shape(given.x);
  const int64_t width = shape.width;
  const int64_t channels = given.weight.numel();
  const NormLoops<T>& loops = norm_loops<T>();
  const at::TensorOptions fp32 = given.x.options().dtype(at::kFloat);
  Gradients found{at::empty_like(given.x), at::Tensor(), at::empty({channels}, fp32),
                  at::empty({channels}, fp32)};
  // dz, the gradient after addition and mask. It is stored if both passes would have to add or mask again, or
  // if it is the residual's gradient too; otherwise dy is read and masked twice, which is less traffic.
  const bool keeps = given.more.defined() || (given.has_residual && given.relu);
  const at::Tensor behind = keeps ? at::empty_like(given.x) : given.dy;
  if (given.has_residual) found.residual = behind;
  const at::Tensor factors = at::empty({kFactors, channels}, fp32);
  float* const scale = writable_row_of(factors, kGradientFactor);
  float* const slope = writable_row_of(factors, kSlope);
  float* const offsets = writable_row_of(factors, kOffset);
  const float* const mean = row_of(given.statistics, kMean);
  const float* const inverse = row_of(given.statistics, kInverseDeviation);
  const float* const weights = given.weight.const_data_ptr<float>();
  float* const of_weight = found.weight.mutable_data_ptr<float>();
  float* const of_bias = found.bias.mutable_data_ptr<float>();
  const T* const gradient = data_of<T>(given.dy);
  const T* const more = data_of<T>(given.more);
  const bool masks_by_x = given.relu && !given.has_residual;
  const ReluMask<T> whole{.y = data_of<T>(given.y),
                          .scale = masks_by_x ? row_of(given.statistics, kScale) : nullptr,
                          .bias = masks_by_x ? given.bias.const_data_ptr<float>() : nullptr};
  const auto mask_at = [&](int64_t offset, int64_t channel) {
    return ReluMask<T>{plus(whole.y, offset), plus(whole.scale, channel), plus(whole.bias, channel)};
  };
  const T* const in = data_of<T>(given.x);
  T* const dx = writable_data_of<T>(found.x);
  T* const dz = keeps ? writable_data_of<T>(behind) : nullptr;
  const double ranks = given.ranks == nullptr ? 1 : given.ranks->count;
  const double count = static_cast<double>(shape.count()) * ranks;

  for_blocks(
      shape, given.ranks,
      [&](const Run& run, ChannelSums& sums) {
        const int64_t offset = run.offset, c = run.channel;
        loops.add_gradient_sums(gradient + offset, plus(more, offset), mask_at(offset, c), in + offset,
                                run.pixels, mean + c, plus(dz, offset), sums);
      },
      [&](int64_t block, const ChannelSums& sums) {
        // With n values per channel, z = weight * (x - mean) * inverse + bias, and the mean and the deviation
        // depending on every x:
        //
        //     dx = weight * inverse * (dz - sum(dz) / n - (x - mean) * inverse^2 * sum(dz * (x - mean)) / n)
        //
        for (int64_t i = 0; i < width; ++i) {
          const int64_t c = block * width + i;
          of_bias[c] = static_cast<float>(sums.first[i] / ranks);
          of_weight[c] = static_cast<float>(sums.second[i] * inverse[c] / ranks);
          const double factor = double{weights[c]} * inverse[c];
          scale[c] = static_cast<float>(factor);
          slope[c] = static_cast<float>(-factor * inverse[c] * inverse[c] * sums.second[i] / count);
          offsets[c] = static_cast<float>(-factor * sums.first[i] / count);
        }
      },
      [&](const Run& run) {
        const int64_t offset = run.offset, c = run.channel;
        loops.backward((keeps ? dz : gradient) + offset, keeps ? ReluMask<T>() : mask_at(offset, c),
                       in + offset, run.pixels, {mean + c, scale + c, slope + c, offsets + c}, dx + offset);
      });
  return found;
}

class FusedNorm : public torch::autograd::Function<FusedNorm> {
 public:
  /// weight and bias are the layer's; they are arguments so that autograd sees them. Returns one tensor, or
  /// two if steps.forks.
  static variable_list forward(AutogradContext* saved, const at::Tensor& x, const at::Tensor& weight,
                               const at::Tensor& bias, const std::optional<at::Tensor>& residual,
                               const NormLayer& layer, const NormSteps& steps, const NormRanks* ranks) {
    replica::uses(weight, bias);
    at::Tensor statistics;
    const at::Tensor y = at::empty_like(x);
    with_type(x, [&](auto type) {
      statistics = normalize<decltype(type)>(x, residual.value_or(at::Tensor()), layer, steps.relu, ranks, y);
    });
    saved->save_for_backward({x, weight, bias, statistics, steps.relu && residual ? y : at::Tensor()});
    saved->saved_data["has_residual"] = residual.has_value();
    saved->saved_data["relu"] = steps.relu;
    saved->saved_data["ranks"] = reinterpret_cast<int64_t>(ranks);
    saved->set_materialize_grads(false);
    if (steps.forks) return {y, y.variable_data()};
    return {y};
  }

  static variable_list backward(AutogradContext* saved, const variable_list& gradients) {
    const variable_list variables = saved->get_saved_variables();
    // The gradient of a mean is an expanded tensor.
    const auto dense = [](const at::Tensor& gradient) {
      return gradient.defined() ? gradient.contiguous() : gradient;
    };
    BackwardInput given{.dy = dense(gradients[0]),
                        .more = gradients.size() > 1 ? dense(gradients[1]) : at::Tensor(),
                        .y = variables[4],
                        .x = variables[0],
                        .weight = variables[1],
                        .bias = variables[2],
                        .statistics = variables[3],
                        .has_residual = saved->saved_data["has_residual"].toBool(),
                        .relu = saved->saved_data["relu"].toBool(),
                        .ranks = reinterpret_cast<const NormRanks*>(saved->saved_data["ranks"].toInt())};
    if (!given.dy.defined()) std::swap(given.dy, given.more);
    replica::uses(given.weight, given.bias);
    Gradients found;
    with_type(given.x, [&](auto type) { found = backward_of<decltype(type)>(given); });
    return {found.x, found.weight, found.bias, found.residual, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

Fork fused_norm(const at::Tensor& x, const at::Tensor& residual, const NormLayer& layer,
                const NormSteps& steps, const NormRanks* ranks) {
  const variable_list made =
      FusedNorm::apply(x, layer.weight, layer.bias,
                       residual.defined() ? std::optional(residual) : std::nullopt, layer, steps, ranks);
  return {made.front(), made.back()};
}

}  // namespace lockstep::kernels
