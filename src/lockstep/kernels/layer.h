#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::kernels {

enum class LayerKind { kConvolution, kLinear, kMaxPool, kAvgPool, kResponseNorm };

/// The operations that a block applies to the result of its convolution or linear layer.
enum class LayerEnding { kNone, kRelu, kNorm, kNormRelu, kNormAddRelu };

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

/// The properties of a layer that do not depend on its input.
struct LayerForm {
  /// The name under which its parameters are registered ("layer1.0.conv1"); empty if it has none.
  std::string name;
  LayerKind kind = LayerKind::kConvolution;
  LayerEnding ending = LayerEnding::kNone;
  bool bias = false;
  /// All zero for a pooling over the whole image of any size; the default for a linear layer.
  Window window = {};
};

/// A layer of a network: one block in one forward pass.
struct Layer {
  LayerForm form;
  /// Sizes of input and output: [batch, channels, height, width], or [batch, values] for a linear layer.
  std::vector<int64_t> in;
  std::vector<int64_t> out;
  /// Whether a layer before this one has parameters, so that the input needs a gradient.
  bool input_learns = true;

  /// Multiply-adds of the forward pass of a convolution or linear layer; 0 for others.
  int64_t multiply_adds() const;
  /// Multiply-adds of the backward pass: the same number for the weights, and again for the input if it needs
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
