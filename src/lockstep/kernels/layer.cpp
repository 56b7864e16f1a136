#include "lockstep/kernels/layer.h"

#include <functional>
#include <numeric>

#include <fmt/format.h>

namespace lockstep::kernels {
namespace {

int64_t product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

std::string extent(int64_t height, int64_t width) {
  return fmt::format("{}x{}", height, width);
}

}  // namespace

int64_t Layer::weights() const {
  switch (form.kind) {
    case LayerKind::kConvolution:
      return out[1] * (in[1] / form.window.groups) * form.window.kernel_height * form.window.kernel_width;
    case LayerKind::kLinear:
      return out[1] * in[1];
    default:
      return 0;
  }
}

int64_t Layer::multiply_adds() const {
  return out[1] == 0 ? 0 : out_values() / out[1] * weights();
}

int64_t Layer::in_values() const {
  return product(in);
}

int64_t Layer::out_values() const {
  return product(out);
}

std::string Layer::text() const {
  std::string text(to_string(form.kind));
  if (form.kind == LayerKind::kLinear) {
    text += fmt::format(" {}->{}", in[1], out[1]);
  } else {
    const Window& window = form.window;
    if (window.kernel_height > 0 && form.kind != LayerKind::kResponseNorm) {
      text += " " + extent(window.kernel_height, window.kernel_width);
      if (window.stride > 1) text += fmt::format("/{}", window.stride);
      if (window.groups > 1) text += fmt::format(" in {}", window.groups);
    }
    text += in[1] == out[1] ? fmt::format(" {}", in[1]) : fmt::format(" {}->{}", in[1], out[1]);
    text += " " + extent(in[2], in[3]);
  }
  if (form.ending != LayerEnding::kNone) text += fmt::format(" + {}", to_string(form.ending));
  return text;
}

std::string_view to_string(LayerKind kind) {
  switch (kind) {
    case LayerKind::kConvolution:
      return "conv";
    case LayerKind::kLinear:
      return "linear";
    case LayerKind::kMaxPool:
      return "max pool";
    case LayerKind::kAvgPool:
      return "avg pool";
    case LayerKind::kResponseNorm:
      return "response norm";
  }
  return "";
}

std::string_view to_string(LayerEnding ending) {
  switch (ending) {
    case LayerEnding::kNone:
      return "";
    case LayerEnding::kRelu:
      return "relu";
    case LayerEnding::kNorm:
      return "norm";
    case LayerEnding::kNormRelu:
      return "norm + relu";
    case LayerEnding::kNormAddRelu:
      return "norm + add + relu";
  }
  return "";
}

bool has_norm(LayerEnding ending) {
  return ending != LayerEnding::kNone && ending != LayerEnding::kRelu;
}

}  // namespace lockstep::kernels
