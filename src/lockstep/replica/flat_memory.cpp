#include "lockstep/replica/flat_memory.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>

#include "lockstep/base/error.h"

namespace lockstep::replica {
namespace {

/// In elements: cuDNN's batch normalization loads its weights 16 bytes at a time without a look at the
/// address.
constexpr int64_t kGpuAlignment = 16;

void check_order(const std::vector<size_t>& order, size_t parameters) {
  std::vector<size_t> sorted = order;
  std::ranges::sort(sorted);
  std::vector<size_t> all(parameters);
  std::iota(all.begin(), all.end(), size_t{0});
  if (sorted != all) {
    throw Error(fmt::format("an order of {} parameters was given for {}, or one of them twice", order.size(),
                            parameters));
  }
}

int64_t rounded_up(int64_t count, int64_t multiple_of) {
  return (count + multiple_of - 1) / multiple_of * multiple_of;
}

at::Tensor view_of(const at::Tensor& flat, const at::Tensor& like, int64_t begin) {
  return flat.as_strided(like.sizes(), like.strides(), begin);
}

}  // namespace

FlatMemory::FlatMemory(Parameters& parameters, std::vector<size_t> order, int64_t multiple_of,
                       GradientMemory gradient_memory, Units units)
    : parameters_(parameters),
      order_(std::move(order)),
      multiple_of_(multiple_of),
      gradient_memory_(std::move(gradient_memory)),
      division_(std::move(units)) {
  check_order(order_, parameters.trainable().size());
  for (const NamedTensor& parameter : parameters.trainable()) {
    // A view with the parameter's strides covers a range without gaps only if the parameter is dense.
    if (parameter.value.scalar_type() != at::kFloat || !parameter.value.is_non_overlapping_and_dense()) {
      throw Error(fmt::format("parameter {} is not dense fp32", parameter.name));
    }
    if (parameter.value.device() != parameters.trainable().front().value.device()) {
      throw Error(fmt::format("parameter {} is on another device than the others", parameter.name));
    }
    if (parameter.value.is_cuda()) alignment_ = kGpuAlignment;
    count_ += rounded_up(parameter.value.numel(), alignment_);
  }
  lay_out();
}

FlatMemory::~FlatMemory() {
  if (!foreign_) return;
  for (const NamedTensor& parameter : parameters_.trainable()) parameter.value.mutable_grad().reset();
}

int64_t FlatMemory::foreign_bytes() const {
  int64_t bytes = 0;
  for (const Unit& unit : units_) bytes += static_cast<int64_t>(unit.gradients.nbytes());
  return foreign_ ? bytes : 0;
}

void FlatMemory::add_unit(Range range, const at::TensorOptions& options) {
  // Gaps and padding take part in collectives, so they must hold numbers.
  Unit unit{.range = range, .values = at::zeros({range.count()}, options)};
  if (division_.with_gradients) {
    unit.gradients = gradient_memory_ ? gradient_memory_(range.count()) : at::Tensor();
    foreign_ = unit.gradients.defined();
    unit.gradients = foreign_ ? unit.gradients.zero_() : at::zeros({range.count()}, options);
  } else {
    unit.gradients = at::empty({range.count()}, options);
  }
  const size_t index = units_.size();
  if (!division_.sizes.empty()) {
    const auto with_index = [index](const std::function<void(size_t, uint64_t)>& call) {
      if (!call) return ReleasableMemory::OnUse();
      return ReleasableMemory::OnUse([&call, index](uint64_t operation) { call(index, operation); });
    };
    unit.memory_of_values =
        std::make_unique<ReleasableMemory>(unit.values, with_index(division_.on_use_of_values), &spare_);
    if (!foreign_) {
      unit.memory_of_gradients = std::make_unique<ReleasableMemory>(
          unit.gradients, with_index(division_.on_use_of_gradients), &spare_);
    }
  }
  if (!division_.with_gradients) unit.memory_of_gradients->release();
  units_.push_back(std::move(unit));
}

at::Tensor FlatMemory::part_of(at::Tensor Unit::*memory, Range range) const {
  const auto after =
      std::ranges::upper_bound(units_, range.begin, {}, [](const Unit& unit) { return unit.range.begin; });
  const Unit& unit = *(after - 1);
  return (unit.*memory).slice(0, range.begin - unit.range.begin, range.end - unit.range.begin);
}

void FlatMemory::reorder(std::vector<size_t> order) {
  check_order(order, order_.size());
  if (order == order_) return;
  // The momenta of other ranges are on other ranks.
  if (!momentum_ranges_.empty()) throw Error("memory with momenta of some ranges only cannot be reordered");
  order_ = std::move(order);
  lay_out();
}

void FlatMemory::lay_out() {
  const at::NoGradGuard no_grad;
  // A copy into a new unit is no use of it, though another replica of this thread may have it watched.
  const at::DisableRecordFunctionGuard unwatched;
  const std::vector<NamedTensor>& trainable = parameters_.trainable();
  const std::vector<Range> ranges_before = ranges_;
  const at::Tensor momenta_before = momenta_;
  const at::Device device = trainable.empty() ? at::Device(at::kCPU) : trainable.front().value.device();
  const at::TensorOptions options = at::TensorOptions().dtype(at::kFloat).device(device);
  const bool divided = !division_.sizes.empty();
  // The old views are copied below, so the old buffers must live until then.
  const std::vector<Unit> units_before = std::exchange(units_, {});
  if (!divided) momenta_ = at::zeros({rounded_up(count_, multiple_of_)}, options);
  ranges_.assign(trainable.size(), {});
  gradient_views_.resize(trainable.size());
  int64_t begin = 0;
  size_t next = 0;
  for (const size_t size : divided ? division_.sizes : std::vector<size_t>{order_.size()}) {
    const size_t first = next;
    const int64_t unit_begin = begin;
    for (; next < first + size; ++next) {
      const int64_t count = rounded_up(trainable[order_[next]].value.numel(), alignment_);
      ranges_[order_[next]] = {begin, begin + count};
      begin += count;
    }
    begin = unit_begin + rounded_up(begin - unit_begin, multiple_of_);
    add_unit({unit_begin, begin}, options);
    const Unit& unit = units_.back();
    for (size_t i = first; i < next; ++i) {
      const size_t index = order_[i];
      at::Tensor parameter = trainable[index].value;
      const Range range = ranges_[index];
      const at::Tensor value = view_of(unit.values, parameter, range.begin - unit_begin);
      value.copy_(parameter);
      const at::Tensor gradient = view_of(unit.gradients, parameter, range.begin - unit_begin);
      if (parameter.grad().defined() && division_.with_gradients) gradient.copy_(parameter.grad());
      if (momenta_before.defined()) {
        const Range before = ranges_before[index];
        momenta(range).copy_(momenta_before.slice(0, before.begin, before.end));
      }
      // The network's blocks share the parameter and compute with the new memory from here on.
      parameter.set_data(value);
      parameter.mutable_grad() = gradient;
      gradient_views_[index] = gradient;
    }
  }
}

void FlatMemory::keep_momenta_of(std::vector<Range> ranges) {
  int64_t count = 0;
  for (const Range& range : ranges) count += range.count();
  momenta_ = at::zeros({count}, units_.front().values.options());
  momentum_ranges_ = std::move(ranges);
  // An empty list would mean that all momenta are kept.
  if (momentum_ranges_.empty()) momentum_ranges_.push_back({});
}

at::Tensor FlatMemory::momenta(Range range) const {
  if (momentum_ranges_.empty()) return momenta_.slice(0, range.begin, range.end);
  int64_t begin = 0;
  for (const Range& kept : momentum_ranges_) {
    if (kept.begin <= range.begin && range.end <= kept.end) {
      return momenta_.narrow(0, begin + range.begin - kept.begin, range.count());
    }
    begin += kept.count();
  }
  throw Error(fmt::format("the momenta of elements {} to {} are not kept here", range.begin, range.end));
}

void FlatMemory::apply(Range range, const SgdOptions& options, bool first_step) {
  fused_sgd({values(range)}, {gradients(range)}, {momenta(range)}, options, first_step);
}

void FlatMemory::save(State& state) const {
  state.add("order", order_);
  state.add("momenta", momenta_);
}

void FlatMemory::restore(const State& state) {
  reorder(state.numbers("order"));
  state.copy_to("momenta", momenta_);
}

}  // namespace lockstep::replica
