#include <algorithm>

#include "trial.h"

namespace lockstep::limit {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using Tag = memory::format_tag;

/// A pooling's windows along one dimension of the image.
struct Axis {
  int64_t kernel, stride, left, right;
};

/// A pooling over the whole image (kernel 0) has windows of the size that yields `out` of them.
Axis axis_of(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding) {
  if (kernel == 0) {
    const int64_t step = in / out;
    return {in - (out - 1) * step, step, 0, 0};
  }
  // In ceil mode the last window may extend beyond the padding.
  return {kernel, stride, padding, std::max(padding, (out - 1) * stride + kernel - in - padding)};
}

class Pool {
 public:
  Pool(const Layer& layer, const LimitOptions& options)
      : layer_(layer),
        type_(value_type(options)),
        height_(axis_of(layer.in[2], layer.out[2], layer.window.kernel_height, layer.window.stride,
                        layer.window.pad_height)),
        width_(axis_of(layer.in[3], layer.out[3], layer.window.kernel_width, layer.window.stride,
                       layer.window.pad_width)),
        how_(layer.kind == LayerKind::kMaxPool ? algorithm::pooling_max
                                               : algorithm::pooling_avg_include_padding) {}

  /// Whether the pooling only copies: 1x1 windows, or an output larger than the input.
  bool copies() const { return height_.stride == 0 || (height_.kernel == 1 && height_.stride == 1); }

  void prepare_forward(Trial& trial, Tag tag) const {
    const auto descriptor = forward(tag);
    Trial::Operands operands{{DNNL_ARG_SRC, trial.operand(descriptor.src_desc())},
                             {DNNL_ARG_DST, trial.operand(descriptor.dst_desc())}};
    if (has_workspace(descriptor))
      operands.emplace(DNNL_ARG_WORKSPACE, trial.operand(descriptor.workspace_desc()));
    trial.add(descriptor, dnnl::pooling_forward(descriptor), std::move(operands));
  }

  void prepare_backward(Trial& trial, Tag tag) const {
    const auto hint = forward(tag);
    const dnnl::pooling_backward::primitive_desc descriptor(processor(), how_, in(tag), out(tag), strides(),
                                                            kernel(), {0, 0}, left(), right(), hint);
    Trial::Operands operands{{DNNL_ARG_DIFF_SRC, trial.operand(descriptor.diff_src_desc())},
                             {DNNL_ARG_DIFF_DST, trial.operand(descriptor.diff_dst_desc())}};
    if (has_workspace(hint)) {
      // The backward pass reads the positions of the maxima from the workspace, so a forward pass fills it.
      const memory workspace = trial.operand(hint.workspace_desc());
      const Trial::Operands before{{DNNL_ARG_SRC, trial.operand(hint.src_desc())},
                                   {DNNL_ARG_DST, trial.operand(hint.dst_desc())},
                                   {DNNL_ARG_WORKSPACE, workspace}};
      trial.allocate();
      dnnl::stream stream(processor());
      dnnl::pooling_forward(hint).execute(stream, before);
      stream.wait();
      operands.emplace(DNNL_ARG_WORKSPACE, workspace);
    }
    trial.add(descriptor, dnnl::pooling_backward(descriptor), std::move(operands));
  }

 private:
  static bool has_workspace(const dnnl::pooling_forward::primitive_desc& descriptor) {
    return descriptor.workspace_desc().get_size() > 0;
  }

  memory::desc in(Tag tag) const { return {layer_.in, type_, tag}; }
  memory::desc out(Tag tag) const { return {layer_.out, type_, tag}; }
  memory::dims strides() const { return {height_.stride, width_.stride}; }
  memory::dims kernel() const { return {height_.kernel, width_.kernel}; }
  memory::dims left() const { return {height_.left, width_.left}; }
  memory::dims right() const { return {height_.right, width_.right}; }

  dnnl::pooling_forward::primitive_desc forward(Tag tag) const {
    return {processor(), prop_kind::forward_training, how_,   in(tag), out(tag), strides(),
            kernel(),    memory::dims{0, 0},          left(), right()};
  }

  const Layer& layer_;
  memory::data_type type_;
  Axis height_, width_;
  algorithm how_;
};

}  // namespace

void add_pool(std::vector<PartLimit>& parts, const Layer& layer, const LimitOptions& options) {
  const Pool pool(layer, options);
  if (pool.copies()) return;
  const auto add = [&](Direction direction, const Prepare& way) {
    parts.push_back(measure_best(Work::kPool, direction, plain_layouts(), {way}, options));
  };
  add(Direction::kForward, [&](Trial& trial, Tag tag) { pool.prepare_forward(trial, tag); });
  if (layer.input_learns)
    add(Direction::kBackward, [&](Trial& trial, Tag tag) { pool.prepare_backward(trial, tag); });
}

}  // namespace lockstep::limit
