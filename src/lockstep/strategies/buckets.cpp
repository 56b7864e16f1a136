#include "lockstep/strategies/buckets.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/mul.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"

namespace lockstep::strategies {
namespace {

constexpr int64_t kBytesPerElement = 4;
constexpr int64_t kLastBucketBytes = kMiB;

/// place = scale * gradient, or place += scale * gradient.
void copy(const at::Tensor& gradient, double scale, bool add, at::Tensor place) {
  const at::NoGradGuard no_grad;
  if (add) {
    place.add_(gradient, scale);
  } else if (scale == 1) {
    place.copy_(gradient);
  } else {
    at::mul_out(place, gradient, at::Scalar(scale));
  }
}

struct Copies {
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> places;
};

/// copy() of many gradients of one type, all with the strides of their places: a single other one would slow
/// down all.
void copy_together(const Copies& copies, double scale, bool add) {
  const auto& [gradients, places] = copies;
  if (gradients.empty()) return;
  const at::NoGradGuard no_grad;
  if (add) {
    at::_foreach_add_(places, gradients, at::Scalar(scale));
    return;
  }
  at::_foreach_copy_(places, gradients, /*non_blocking=*/true);
  if (scale != 1) at::_foreach_mul_(places, at::Scalar(scale));
}

}  // namespace

std::vector<Bucket> plan_buckets(const replica::FlatMemory& memory, int64_t cap_bytes,
                                 const BucketRules& rules) {
  const replica::Range whole = rules.within.value_or(replica::Range{0, memory.padded_count()});
  std::vector<Bucket> buckets;
  if (whole.count() == 0) return buckets;
  const auto elements = [&](int64_t bytes) {
    return std::max<int64_t>(1, bytes / kBytesPerElement / rules.multiple_of) * rules.multiple_of;
  };
  const int64_t cap = elements(cap_bytes);
  const int64_t last = rules.small_last ? std::min(cap, elements(kLastBucketBytes)) : cap;
  // If everything fits in the last, small bucket, a second one would be useless.
  const int64_t last_begin = whole.count() <= last ? whole.begin
                             : rules.small_last    ? whole.end - last
                                                   : whole.begin + (whole.count() - 1) / cap * cap;
  for (int64_t begin = whole.begin; begin < last_begin; begin += cap) {
    buckets.push_back({{begin, std::min(begin + cap, last_begin)}, {}});
  }
  buckets.push_back({{last_begin, whole.end}, {}});
  size_t first = 0;
  for (const size_t parameter : memory.order()) {
    const replica::Range range = memory.range_of(parameter);
    if (range.end <= whole.begin) continue;
    while (buckets[first].range.end <= range.begin && first + 1 < buckets.size()) ++first;
    for (size_t i = first; i < buckets.size() && buckets[i].range.begin < range.end; ++i) {
      if (range.begin < buckets[i].range.end) buckets[i].parameters.push_back(parameter);
    }
  }
  return buckets;
}

std::vector<size_t> reverse_order(size_t parameters) {
  std::vector<size_t> order(parameters);
  std::iota(order.rbegin(), order.rend(), size_t{0});
  return order;
}

BucketFiller::BucketFiller(replica::Parameters& parameters, replica::FlatMemory& memory, double scale,
                           bool overlap, OnFull on_full)
    : overlap_(overlap),
      on_full_(std::move(on_full)),
      buckets_of_(parameters.trainable().size()),
      gradients_(parameters, memory, scale, copying_for(memory),
                 [this](size_t index) { gradient_final(index); }) {}

void BucketFiller::set_plan(std::vector<Bucket> buckets) {
  buckets_ = std::move(buckets);
  missing_.assign(buckets_.size(), 0);
  buckets_of_.assign(buckets_of_.size(), {});
  for (size_t i = 0; i < buckets_.size(); ++i) {
    for (const size_t parameter : buckets_[i].parameters) buckets_of_[parameter].push_back(i);
  }
}

void BucketFiller::begin_step() {
  ready_order_.clear();
  reported_ = 0;
  gradients_.begin_step();
  for (size_t i = 0; i < buckets_.size(); ++i) missing_[i] = buckets_[i].parameters.size();
}

void BucketFiller::finish() {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    if (missing_[i] == 0) continue;
    throw Error(fmt::format("{} parameters of bucket {} got no gradient in this step", missing_[i], i + 1),
                "This strategy needs a network that uses all of its parameters in every step.");
  }
  report_full_buckets();
}

void BucketFiller::gradient_final(size_t index) {
  ready_order_.push_back(index);
  for (const size_t bucket : buckets_of_[index]) --missing_[bucket];
  if (overlap_) report_full_buckets();
}

void BucketFiller::report_full_buckets() {
  if (reported_ == buckets_.size() || missing_[reported_] > 0) return;
  gradients_.fill_places();
  while (reported_ < buckets_.size() && missing_[reported_] == 0) on_full_(reported_++);
}

Fusion::Fusion(const replica::FlatMemory& memory, int64_t cap_bytes, bool fixed)
    : memory_(memory), cap_(cap_bytes / 4) {
  if (!fixed) return;
  fixed_ = pack(memory.order());
  pack_of_.resize(memory.order().size());
  for (size_t i = 0; i < fixed_.size(); ++i) {
    for (const size_t tensor : fixed_[i].tensors) pack_of_[tensor] = i;
    missing_.push_back(fixed_[i].tensors.size());
  }
}

std::vector<replica::Range> Fusion::packs_of(const std::vector<size_t>& tensors) {
  std::vector<replica::Range> full;
  if (fixed_.empty()) {
    std::vector<size_t> in_order = tensors;
    std::ranges::sort(in_order, {}, [this](size_t tensor) { return memory_.range_of(tensor).begin; });
    for (const Pack& pack : pack(in_order)) full.push_back(pack.range);
    return full;
  }
  for (const size_t tensor : tensors) {
    const size_t pack = pack_of_[tensor];
    if (--missing_[pack] > 0) continue;
    full.push_back(fixed_[pack].range);
    missing_[pack] = fixed_[pack].tensors.size();
  }
  return full;
}

std::vector<Fusion::Pack> Fusion::pack(const std::vector<size_t>& tensors) const {
  std::vector<Pack> packs;
  for (const size_t tensor : tensors) {
    const replica::Range range = memory_.range_of(tensor);
    const bool fits = !packs.empty() && packs.back().range.end == range.begin &&
                      packs.back().range.count() + range.count() <= cap_;
    if (!fits) packs.push_back({{range.begin, range.begin}, {}});
    packs.back().range.end = range.end;
    packs.back().tensors.push_back(tensor);
  }
  return packs;
}

/// Called in the backward pass as soon as the gradient of a parameter is final. The gradient then belongs to
/// the callee: autograd does not add it to `.grad`.
class FlatGradients::Hook final : public torch::autograd::FunctionPreHook {
 public:
  Hook(size_t index, std::weak_ptr<OnGradient> on_gradient)
      : index_(index), on_gradient_(std::move(on_gradient)) {}

  std::vector<at::Tensor> operator()(const std::vector<at::Tensor>& gradients) override {
    const auto on_gradient = on_gradient_.lock();
    if (!on_gradient || !gradients.front().defined()) return gradients;
    (*on_gradient)(index_, gradients.front());
    // Autograd does not accumulate undefined gradients.
    return std::vector<at::Tensor>(1);
  }

 private:
  size_t index_;
  std::weak_ptr<OnGradient> on_gradient_;
};

Copying copying_for(const replica::FlatMemory& memory) {
  return memory.gradients({}).is_cuda() ? Copying::kTogether : Copying::kEach;
}

FlatGradients::FlatGradients(replica::Parameters& parameters, replica::FlatMemory& memory, double scale,
                             Copying copying, OnFinal on_final)
    : parameters_(parameters),
      memory_(memory),
      copying_(copying),
      scale_(scale),
      on_final_(std::move(on_final)),
      on_gradient_(std::make_shared<OnGradient>(
          [this](size_t index, const at::Tensor& gradient) { gradient_ready(index, gradient); })) {
  const std::vector<at::Tensor> tensors = parameters.tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    torch::autograd::impl::add_hook(tensors[i], std::make_unique<Hook>(i, on_gradient_));
  }
  // Not on a GPU, where blocks do not check autocast before they write.
  const bool on_gpu = memory.gradients({}).is_cuda();
  if (copying_ == Copying::kEach && !on_gpu) placeable_ = parameters.placeable_gradients();
  assign_places();
  if (copying_ == Copying::kEach) return;
  // Their gradients are widened as they are copied, instead of one by one before.
  narrow_ = parameters.narrowable();
  for (const size_t index : narrow_) {
    parameters_.set_narrow_gradient_sink(
        index, [this, index](const at::Tensor& gradient) { gradient_ready(index, gradient); });
  }
}

FlatGradients::~FlatGradients() {
  for (const size_t index : narrow_) parameters_.set_narrow_gradient_sink(index, {});
  for (const size_t index : placeable_) parameters_.place_gradient(index, {});
}

void FlatGradients::begin_step() {
  passes_ = 0;
  waiting_.clear();
}

void FlatGradients::begin_backward(bool last) {
  // The gradients of the previous micro-batch.
  fill_places();
  ++passes_;
  last_ = last;
  assign_places();
}

void FlatGradients::fill_places() {
  Copies wide, narrow;
  for (auto& [index, gradient] : waiting_) {
    const at::Tensor place = memory_.gradient_view(index);
    if (gradient.strides() != place.strides()) {
      copy(gradient, scale_, passes_ > 1, place);
      continue;
    }
    Copies& copies = gradient.scalar_type() == place.scalar_type() ? wide : narrow;
    copies.gradients.push_back(std::move(gradient));
    copies.places.push_back(place);
  }
  waiting_.clear();
  copy_together(wide, scale_, passes_ > 1);
  copy_together(narrow, scale_, passes_ > 1);
}

void FlatGradients::gradient_ready(size_t index, const at::Tensor& gradient) {
  if (copying_ == Copying::kTogether) {
    waiting_.emplace_back(index, gradient);
  } else {
    const at::Tensor place = memory_.gradient_view(index);
    if (gradient.data_ptr() != place.data_ptr()) copy(gradient, scale_, passes_ > 1, place);
  }
  if (last_) on_final_(index);
}

void FlatGradients::assign_places() {
  for (const size_t index : placeable_) {
    parameters_.place_gradient(index,
                               {.tensor = memory_.gradient_view(index), .scale = scale_, .add = passes_ > 1});
  }
}

}  // namespace lockstep::strategies
