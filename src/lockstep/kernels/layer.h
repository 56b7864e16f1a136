#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::kernels {

enum class LayerKind { kConvolution, kLinear, kMaxPool, kAvgPool, kResponseNorm };

/// What a block does to the result of its convolution or linear layer.
enum class LayerEnding { kNone, kRelu, kNorm, kNormRelu, kNormAddRelu };

/// How a window moves over an image.
struct Window {
  int64_t kernel_height = 1;
  int64_t kernel_width = 1;
  int64_t stride = 1;
  int64_t pad_height = 0;
  int64_t pad_width = 0;
  int64_t groups = 1;

  friend bool operator==(const Window&, const Window&) = default;
};

/// What a block knows of itself before it sees an image.
struct LayerForm {
  /// As its parameters are registered ("layer1.0.conv1"); empty for those that have none.
  std::string name;
  LayerKind kind = LayerKind::kConvolution;
  LayerEnding ending = LayerEnding::kNone;
  bool bias = false;
  /// Of a pooling over the whole image whatever its size: all zero; of a linear layer the default.
  Window window = {};
};

/// A layer of a network: one block in one forward pass.
struct Layer {
  LayerForm form;
  /// Sizes of what goes in and comes out: [batch, channels, height, width], of a linear layer [batch,
  /// values].
  std::vector<int64_t> in;
  std::vector<int64_t> out;
  /// false where nothing before the layer learns.
  bool input_learns = true;

  /// Of the forward pass: of convolution or linear layer.
  int64_t multiply_adds() const;
  /// Multiply-adds of the backward pass: as many for the weights, and as many for the input where that wants
  /// a gradient.
  int64_t backward_multiply_adds() const { return multiply_adds() * (input_learns ? 2 : 1); }
  int64_t weights() const;
  int64_t in_values() const;
  int64_t out_values() const;
  /// "conv 3x3/2 64->128 56x56 + norm + relu"
  std::string text() const;
};

std::string_view to_string(LayerKind kind);
std::string_view to_string(LayerEnding ending);

bool has_norm(LayerEnding ending);

}  // namespace lockstep::kernels
