#include "lockstep/replica/parameters.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>

#include "lockstep/base/error.h"
#include "lockstep/replica/random.h"

namespace lockstep::replica {
namespace {

/// The indices of the elements that are not null.
template <typename Thing>
std::vector<size_t> asked_for(const std::vector<std::shared_ptr<Thing>>& things) {
  std::vector<size_t> indices;
  for (size_t index = 0; index < things.size(); ++index) {
    if (things[index]) indices.push_back(index);
  }
  return indices;
}

}  // namespace

GradientPlace GradientPlace::or_new(const at::Tensor& parameter) const {
  if (tensor.defined()) return *this;
  return {.tensor = at::empty_like(parameter)};
}

Parameters::Parameters(std::optional<uint64_t> seed, at::MemoryFormat memory_format)
    : seed_(seed), memory_format_(memory_format) {}

at::Tensor Parameters::add(const std::string& name, at::IntArrayRef shape, Init init) {
  // Draw in the plain layout, so that the n-th random number is the n-th element in every memory format.
  at::Tensor values = at::empty(shape, at::kFloat);
  if (!seed_) init = Init::constant(init.kind == Init::Kind::kConstant ? init.value : 0);
  switch (init.kind) {
    case Init::Kind::kConstant:
      values.fill_(init.value);
      break;
    case Init::Kind::kNormal:
      values.normal_(0, init.value, stream_generator(*seed_, name));
      break;
    case Init::Kind::kUniform:
      values.uniform_(-init.value, init.value, stream_generator(*seed_, name));
      break;
  }
  values = in_memory_format(values);
  add(name, values);
  return values;
}

void Parameters::add(const std::string& name, at::Tensor values) {
  check_unused(name);
  values.set_requires_grad(true);
  trainable_.push_back({name, std::move(values)});
  gradient_places_.emplace_back();
  narrow_copies_.emplace_back();
  narrow_gradient_sinks_.emplace_back();
}

at::Tensor Parameters::add_buffer(const std::string& name, at::IntArrayRef shape, double value,
                                  at::ScalarType dtype) {
  const at::Tensor values = in_memory_format(at::full(shape, value, dtype));
  add_buffer(name, values);
  return values;
}

void Parameters::add_buffer(const std::string& name, at::Tensor values) {
  check_unused(name);
  buffers_.push_back({name, std::move(values)});
}

std::shared_ptr<const GradientPlace> Parameters::gradient_place(const std::string& name) {
  auto& place = gradient_places_[index_of(name)];
  if (!place) place = std::make_shared<GradientPlace>();
  return place;
}

std::vector<size_t> Parameters::placeable_gradients() const {
  return asked_for(gradient_places_);
}

void Parameters::place_gradient(size_t index, GradientPlace place) {
  *gradient_places_.at(index) = std::move(place);
}

std::shared_ptr<const at::Tensor> Parameters::narrow_copy(const std::string& name) {
  auto& copy = narrow_copies_[index_of(name)];
  if (!copy) copy = std::make_shared<at::Tensor>();
  return copy;
}

std::shared_ptr<const NarrowGradientSink> Parameters::narrow_gradient_sink(const std::string& name) {
  auto& sink = narrow_gradient_sinks_[index_of(name)];
  if (!sink) sink = std::make_shared<NarrowGradientSink>();
  return sink;
}

std::vector<size_t> Parameters::narrowable() const {
  return asked_for(narrow_copies_);
}

void Parameters::set_narrow_copy(size_t index, at::Tensor copy) {
  *narrow_copies_.at(index) = std::move(copy);
}

void Parameters::set_narrow_gradient_sink(size_t index, NarrowGradientSink sink) {
  *narrow_gradient_sinks_.at(index) = std::move(sink);
}

void Parameters::move_to(at::Device device) {
  for (const auto* tensors : {&trainable_, &buffers_}) {
    // set_data() keeps the tensor object, which blocks share, and replaces its memory.
    for (const NamedTensor& tensor : *tensors) tensor.value.set_data(tensor.value.detach().to(device));
  }
}

int64_t Parameters::count() const {
  int64_t sum = 0;
  for (const NamedTensor& parameter : trainable_) sum += parameter.value.numel();
  return sum;
}

std::vector<at::Tensor> Parameters::tensors() const {
  std::vector<at::Tensor> all;
  all.reserve(trainable_.size());
  for (const NamedTensor& parameter : trainable_) all.push_back(parameter.value);
  return all;
}

void Parameters::check_unused(const std::string& name) const {
  const auto has_name = [&](const NamedTensor& tensor) { return tensor.name == name; };
  if (std::ranges::any_of(trainable_, has_name) || std::ranges::any_of(buffers_, has_name)) {
    throw Error("two tensors of one network are named '" + name + "'", "Give every block a name of its own.");
  }
}

size_t Parameters::index_of(const std::string& name) const {
  const auto parameter = std::ranges::find(trainable_, name, &NamedTensor::name);
  if (parameter == trainable_.end()) throw Error("the network has no parameter '" + name + "'");
  return static_cast<size_t>(parameter - trainable_.begin());
}

at::Tensor Parameters::in_memory_format(const at::Tensor& values) const {
  if (values.dim() != 4) return values;
  // contiguous() would keep the strides of a 1x1 kernel, from which the format could not be told later.
  return at::empty(values.sizes(), values.options(), memory_format_).copy_(values);
}

}  // namespace lockstep::replica
