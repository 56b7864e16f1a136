#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/models/model.h"

namespace lockstep::limit {

enum class LayerKind { kConvolution, kLinear, kMaxPool, kAvgPool, kResponseNorm };

/// The operations that follow a convolution or a linear layer.
enum class LayerEnding { kNone, kRelu, kNorm, kNormRelu, kNormAdd, kNormAddRelu };

/// The window of a convolution or pooling, and its steps over the image.
struct Window {
  int64_t kernel_height = 1;
  int64_t kernel_width = 1;
  int64_t stride = 1;
  int64_t pad_height = 0;
  int64_t pad_width = 0;
  int64_t groups = 1;

  friend bool operator==(const Window&, const Window&) = default;
};

/// A layer of a network in a training step.
struct Layer {
  /// The name of its parameters ("layer1.0.conv1"), or its kind and a number ("max_pool2").
  std::string name;
  LayerKind kind = LayerKind::kConvolution;
  LayerEnding ending = LayerEnding::kNone;
  bool bias = false;
  /// All zero for a pooling over the whole image of any size; the default for a linear layer.
  Window window = {};
  /// Sizes of input and output: [batch, channels, height, width], or [batch, values] for a linear layer.
  std::vector<int64_t> in;
  std::vector<int64_t> out;
  /// Whether a layer before this one has parameters, so that the input needs a gradient.
  bool input_learns = true;

  /// Multiply-adds of the forward pass of a convolution or linear layer, and as many for each of its two
  /// backward directions; 0 for other layers.
  int64_t multiply_adds() const;
  /// "conv 3x3/2 64->128 56x56 + norm + relu"
  std::string text() const;
};

bool has_norm(LayerEnding ending);

/// The layers of a training step with batches of `batch` images, in the order in which they begin. Builds the
/// network, runs one image forward, and observes LibTorch's operations.
std::vector<Layer> list_layers(const models::ModelInfo& info, int64_t image_size, int64_t batch);

}  // namespace lockstep::limit
