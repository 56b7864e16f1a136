#pragma once

#include <cstdint>
#include <iosfwd>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/cuda_kernels/operations.h"

#include "cuda_kernels/image_data.h"

namespace lockstep::cuda_kernels {

struct NormCase {
  int64_t batch = 2;
  int64_t height = 5;
  int64_t width = 7;
  int64_t channels = 16;
  Number number = Number::kFloat;
  bool relu = true;
  bool residual = false;
  /// Whether y has two gradients.
  bool forks = false;
  /// Values by which an image begins after a multiple of 16 bytes, and the image: x, residual, dy, dy', y, dz
  /// or dx by its number, or all of them.
  int shift = 0;
  int shifted = kAllImages;
  double mean = 0;
  uint64_t seed = 1;

  static constexpr int kAllImages = 7;
  int shift_of(int image) const { return shifted == image || shifted == kAllImages ? shift : 0; }
  int64_t rows() const { return batch * height * width; }
};

std::ostream& operator<<(std::ostream& out, const NormCase& own);

/// A forward and a backward pass of a normalization by the kernels, on the host.
class NormRun {
 public:
  explicit NormRun(const NormCase& own);

  /// Both passes.
  void run();
  /// The same in memory that may have served other shapes; it grows, zeroed, where it is too small.
  void run(std::vector<char>& workspace);
  /// Compares everything that they made with LibTorch's batch normalization in fp64 on the same values.
  void expect_like_torch();
  /// Everything that they made, as bytes.
  std::vector<at::Tensor> made();

  /// [rows, channels], of the case's number; may be changed before run().
  at::Tensor x() { return x_.tensor().view({own_.rows(), own_.channels}); }
  at::Tensor y() { return y_.tensor().view({own_.rows(), own_.channels}); }
  at::Tensor dx() { return dx_.tensor().view({own_.rows(), own_.channels}); }
  /// Whether each value passed the ReLU, bool [rows, channels].
  at::Tensor passed() const;

  /// fp32, [channels]; those that kernels write have a guard behind them.
  at::Tensor weight, bias, mean, inverse, of_weight, of_bias, running_mean, running_variance;

 private:
  Shape shape() const { return {own_.rows(), static_cast<int32_t>(own_.channels)}; }
  NormForward forward(void* workspace);
  NormBackward backward(void* workspace);
  /// A tensor of the case's shape as LibTorch has it, fp64, NCHW.
  at::Tensor image(GuardedValues& values) const;
  /// The other way round: [rows, channels].
  at::Tensor rows_of(const at::Tensor& image) const;
  void expect_guarded() const;
  void expect_forward_like(const at::Tensor& normalized);
  void expect_backward_like(const at::Tensor& x, const at::Tensor& z, const at::Tensor& weight_used,
                            const at::Tensor& bias_used);

  NormCase own_;
  GuardedValues x_, residual_, dy_, more_, y_, dz_, dx_;
  std::vector<uint8_t> mask_;
  std::vector<char> workspace_;
  /// Memory of the values per channel that kernels write, and of their guards.
  at::Tensor written_;
  at::Tensor first_running_mean_, first_running_variance_;
};

constexpr double kEpsilon = 1e-5;
constexpr double kMomentum = 0.1;

}  // namespace lockstep::cuda_kernels
