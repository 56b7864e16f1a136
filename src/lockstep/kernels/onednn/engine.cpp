#include "lockstep/kernels/onednn/engine.h"

#include <string_view>

#include <ATen/ops/empty.h>

#include "lockstep/kernels/image_layout.h"
#include "lockstep/replica/precision.h"

namespace lockstep::kernels::onednn {
namespace {

using dnnl::memory;

dnnl::stream& stream() {
  thread_local dnnl::stream own(engine());
  return own;
}

/// Scratch memory of the calling thread, as large as the largest request so far. One arena for all
/// primitives: only one runs at a time, and memory that was just used is in the cache.
const at::Tensor& scratch(int64_t bytes) {
  thread_local at::Tensor own;
  if (!own.defined() || own.numel() < bytes) {
    // Freed before the larger one is allocated, so that both never exist at once.
    own = at::Tensor();
    own = at::empty({bytes}, at::kByte);
  }
  return own;
}

}  // namespace

const dnnl::engine& engine() {
  static const dnnl::engine own(dnnl::engine::kind::cpu, 0);
  return own;
}

memory::data_type type_of(at::ScalarType type) {
  return type == at::kBFloat16 ? memory::data_type::bf16 : memory::data_type::f32;
}

at::ScalarType computing_type(const at::Tensor& x) {
  return replica::is_autocast_on(at::kCPU) ? at::kBFloat16 : x.scalar_type();
}

memory::format_tag tag_of(at::ScalarType type) {
  if (layout_of(type) == ImageLayout::kChannelsLast) return memory::format_tag::nhwc;
  return channels_per_block() == 16 ? memory::format_tag::nChw16c : memory::format_tag::nChw8c;
}

memory::desc image_desc(const at::Tensor& image) {
  const memory::data_type type = type_of(image.scalar_type());
  if (is_blocked(image)) {
    return {
        {image.size(0), channels_of(image), image.size(2), image.size(3)}, type, tag_of(image.scalar_type())};
  }
  // The strides of a single channel may say anything.
  if (tag_of(image.scalar_type()) == memory::format_tag::nhwc &&
      image.is_contiguous(at::MemoryFormat::ChannelsLast)) {
    return {image.sizes().vec(), type, memory::format_tag::nhwc};
  }
  return {image.sizes().vec(), type, image.strides().vec()};
}

at::Tensor allocate(const memory::desc& desc) {
  return at::empty({static_cast<int64_t>(desc.get_size())}, at::kByte);
}

memory memory_of(const memory::desc& desc, const at::Tensor& tensor) {
  return memory(desc, engine(), tensor.data_ptr());
}

void run(const dnnl::primitive& primitive, const memory::desc& scratchpad, Arguments arguments) {
  const auto bytes = static_cast<int64_t>(scratchpad.get_size());
  if (bytes > 0) arguments.emplace(DNNL_ARG_SCRATCHPAD, memory_of(scratchpad, scratch(bytes)));
  primitive.execute(stream(), arguments);
  stream().wait();
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

bool is_reference(const char* implementation) {
  return std::string_view(implementation).find("ref") != std::string_view::npos;
}

Reorder::Reorder(memory::desc from, memory::desc into)
    : from_(std::move(from)), into_(std::move(into)), pairs_(can_make_pairs(from_, into_)) {}

Reorder::Made Reorder::make(bool scales, bool adds) const {
  dnnl::primitive_attr attributes = user_scratchpad();
  if (scales) attributes.set_scales_mask(DNNL_ARG_SRC, 0);
  if (adds) {
    dnnl::post_ops sum;
    sum.append_sum();
    attributes.set_post_ops(sum);
  }
  const dnnl::reorder::primitive_desc found(engine(), from_, engine(), into_, attributes);
  return {dnnl::reorder(found), found.scratchpad_desc()};
}

void Reorder::operator()(const memory& from, const memory& into, double scale, bool add) const {
  const bool scales = scale != 1;
  if (pairs_ && !scales && !add) return make_pairs(from, into);
  auto made = made_.find({scales, add});
  if (made == made_.end()) made = made_.emplace(std::pair(scales, add), make(scales, add)).first;
  Arguments arguments{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, into}};
  auto factor = static_cast<float>(scale);
  if (scales) {
    const memory::desc one({1}, memory::data_type::f32, memory::format_tag::x);
    arguments.emplace(DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC, memory(one, engine(), &factor));
  }
  run(made->second.primitive, made->second.scratchpad, std::move(arguments));
}

Read::Read(const Reorder& reorder, const at::Tensor& tensor)
    : tensor_(reorder.changes() ? allocate(reorder.into()) : tensor),
      memory_(memory_of(reorder.into(), tensor_)) {
  if (reorder.changes()) reorder(memory_of(reorder.from(), tensor), memory_);
}

Written::Written(const Reorder& reorder, at::Tensor tensor, double scale, bool add)
    : reorder_(reorder), tensor_(std::move(tensor)), scale_(scale), add_(add) {
  if (reorder.changes() || scale != 1 || add) apart_ = allocate(reorder.from());
  memory_ = memory_of(reorder.from(), apart_.defined() ? apart_ : tensor_);
}

void Written::finish() {
  if (apart_.defined()) reorder_(memory_, memory_of(reorder_.into(), tensor_), scale_, add_);
}

}  // namespace lockstep::kernels::onednn
