#include "lockstep/kernels/layer_watch.h"

#include <algorithm>

#include <fmt/format.h>

#include <ATen/core/grad_mode.h>

#include "lockstep/kernels/image_layout.h"

namespace lockstep::kernels {

at::Tensor LayerList::enter(const LayerForm& form, const at::Tensor& x) {
  Layer layer{.form = form,
              .in = plain_sizes(x),
              .out = {},
              .input_learns = x.requires_grad() && at::GradMode::is_enabled()};
  if (form.name.empty()) {
    const auto of_kind =
        std::ranges::count_if(layers_, [&](const Layer& other) { return other.form.kind == form.kind; });
    std::string kind(to_string(form.kind));
    std::ranges::replace(kind, ' ', '_');
    layer.form.name = fmt::format("{}{}", kind, of_kind + 1);
  }
  open_.push_back(layers_.size());
  layers_.push_back(std::move(layer));
  return x;
}

at::Tensor LayerList::leave(const at::Tensor& y) {
  layers_[open_.back()].out = plain_sizes(y);
  open_.pop_back();
  return y;
}

}  // namespace lockstep::kernels
