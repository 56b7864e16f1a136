#include "lockstep/kernels/layer_clock.h"

#include <algorithm>

#include <fmt/format.h>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/base/clock.h"
#include "lockstep/kernels/image_layout.h"

namespace lockstep::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

enum class Side : int64_t { kBefore, kBehind };

/// A node of the graph that passes values and gradients on unchanged and tells the clock when.
class Stamp : public torch::autograd::Function<Stamp> {
 public:
  static at::Tensor forward(AutogradContext* saved, const at::Tensor& x, LayerClock* clock, int64_t layer,
                            int64_t side) {
    saved->saved_data["clock"] = reinterpret_cast<int64_t>(clock);
    saved->saved_data["layer"] = layer;
    saved->saved_data["side"] = side;
    return x.view_as(x);
  }

  static variable_list backward(AutogradContext* saved, const variable_list& gradients) {
    auto& clock = *reinterpret_cast<LayerClock*>(saved->saved_data["clock"].toInt());
    const auto layer = static_cast<size_t>(saved->saved_data["layer"].toInt());
    if (static_cast<Side>(saved->saved_data["side"].toInt()) == Side::kBehind) {
      clock.gradient_arrived_behind(layer);
    } else {
      clock.gradient_arrived_before(layer);
    }
    return {gradients[0], at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

at::Tensor stamped(const at::Tensor& x, LayerClock& clock, size_t layer, Side side) {
  if (!x.requires_grad()) return x;
  return Stamp::apply(x, &clock, static_cast<int64_t>(layer), static_cast<int64_t>(side));
}

}  // namespace

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

void LayerClock::begin_pass() {
  list_ = {};
  passes_.emplace_back();
  open_.clear();
  backward_ = false;
}

void LayerClock::end_pass() {
  stamp();
  open_.clear();
}

at::Tensor LayerClock::enter(const LayerForm& form, const at::Tensor& x) {
  stamp();
  const size_t layer = layers().size();
  list_.enter(form, x);
  passes_.back().emplace_back();
  const at::Tensor in = stamped(x, *this, layer, Side::kBefore);
  open_.push_back(layer);
  stamped_s_ = now_s();
  return in;
}

at::Tensor LayerClock::leave(const at::Tensor& y) {
  stamp();
  list_.leave(y);
  const size_t layer = open_.back();
  open_.pop_back();
  at::Tensor out = stamped(y, *this, layer, Side::kBehind);
  stamped_s_ = now_s();
  return out;
}

void LayerClock::gradient_arrived_behind(size_t layer) {
  stamp();
  backward_ = true;
  // A layer whose input needs no gradient has no stamp at its end; it ends where the next layer begins.
  while (!open_.empty() && !layers()[open_.back()].input_learns) open_.pop_back();
  open_.push_back(layer);
}

void LayerClock::gradient_arrived_before(size_t layer) {
  stamp();
  while (!open_.empty() && open_.back() != layer) open_.pop_back();
  if (!open_.empty()) open_.pop_back();
}

void LayerClock::stamp() {
  const double s = now_s();
  if (!open_.empty()) {
    Times& times = passes_.back()[open_.back()];
    (backward_ ? times.backward_s : times.forward_s) += s - stamped_s_;
  }
  stamped_s_ = s;
}

}  // namespace lockstep::kernels
