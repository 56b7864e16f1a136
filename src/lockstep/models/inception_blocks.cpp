#include "lockstep/models/inception_blocks.h"

#include "lockstep/kernels/image_layout.h"

namespace lockstep::models {
namespace {

using kernels::Context;
using kernels::Extent;
using replica::Parameters;

constexpr Extent kWide7{1, 7};
constexpr Extent kTall7{7, 1};
constexpr Extent kWide3{1, 3};
constexpr Extent kTall3{3, 1};

at::Tensor average(const at::Tensor& x, const Context& context) {
  static const kernels::AvgPool pool({.kernel = 3, .stride = 1, .padding = 1});
  return pool(x, context);
}

at::Tensor halve(const at::Tensor& x, const Context& context) {
  static const kernels::MaxPool pool({.kernel = 3, .stride = 2});
  return pool(x, context);
}

/// A branch of the block `name`.
ConvChain branch(Parameters& parameters, const std::string& name, const std::vector<ChainLink>& links) {
  return {parameters, name, kInceptionDeviation, links};
}

}  // namespace

InceptionA::InceptionA(Parameters& parameters, const std::string& name, int64_t in, int64_t pooled)
    : one_(branch(parameters, name, {same_size("branch1x1", in, 64)})),
      five_(
          branch(parameters, name, {same_size("branch5x5_1", in, 48), same_size("branch5x5_2", 48, 64, 5)})),
      three_twice_(branch(parameters, name,
                          {same_size("branch3x3dbl_1", in, 64), same_size("branch3x3dbl_2", 64, 96, 3),
                           same_size("branch3x3dbl_3", 96, 96, 3)})),
      pooled_(branch(parameters, name, {same_size("branch_pool", in, pooled)})) {}

// The branches are computed one statement after the other: the order in which gradients become ready follows.
at::Tensor InceptionA::operator()(const at::Tensor& x, const Context& context) const {
  const at::Tensor one = one_(x, context);
  const at::Tensor five = five_(x, context);
  const at::Tensor three_twice = three_twice_(x, context);
  return kernels::concatenate({one, five, three_twice, pooled_(average(x, context), context)});
}

InceptionB::InceptionB(Parameters& parameters, const std::string& name, int64_t in)
    : three_(branch(parameters, name, {valid("branch3x3", in, 384, 3, 2)})),
      three_twice_(branch(parameters, name,
                          {same_size("branch3x3dbl_1", in, 64), same_size("branch3x3dbl_2", 64, 96, 3),
                           valid("branch3x3dbl_3", 96, 96, 3, 2)})) {}

at::Tensor InceptionB::operator()(const at::Tensor& x, const Context& context) const {
  const at::Tensor three = three_(x, context);
  const at::Tensor three_twice = three_twice_(x, context);
  return kernels::concatenate({three, three_twice, halve(x, context)});
}

InceptionC::InceptionC(Parameters& parameters, const std::string& name, int64_t in, int64_t width)
    : one_(branch(parameters, name, {same_size("branch1x1", in, 192)})),
      seven_(branch(parameters, name,
                    {same_size("branch7x7_1", in, width), same_size("branch7x7_2", width, width, kWide7),
                     same_size("branch7x7_3", width, 192, kTall7)})),
      seven_twice_(
          branch(parameters, name,
                 {same_size("branch7x7dbl_1", in, width), same_size("branch7x7dbl_2", width, width, kTall7),
                  same_size("branch7x7dbl_3", width, width, kWide7),
                  same_size("branch7x7dbl_4", width, width, kTall7),
                  same_size("branch7x7dbl_5", width, 192, kWide7)})),
      pooled_(branch(parameters, name, {same_size("branch_pool", in, 192)})) {}

at::Tensor InceptionC::operator()(const at::Tensor& x, const Context& context) const {
  const at::Tensor one = one_(x, context);
  const at::Tensor seven = seven_(x, context);
  const at::Tensor seven_twice = seven_twice_(x, context);
  return kernels::concatenate({one, seven, seven_twice, pooled_(average(x, context), context)});
}

InceptionD::InceptionD(Parameters& parameters, const std::string& name, int64_t in)
    : three_(branch(parameters, name,
                    {same_size("branch3x3_1", in, 192), valid("branch3x3_2", 192, 320, 3, 2)})),
      seven_(branch(parameters, name,
                    {same_size("branch7x7x3_1", in, 192), same_size("branch7x7x3_2", 192, 192, kWide7),
                     same_size("branch7x7x3_3", 192, 192, kTall7), valid("branch7x7x3_4", 192, 192, 3, 2)})) {
}

at::Tensor InceptionD::operator()(const at::Tensor& x, const Context& context) const {
  const at::Tensor three = three_(x, context);
  const at::Tensor seven = seven_(x, context);
  return kernels::concatenate({three, seven, halve(x, context)});
}

InceptionE::InceptionE(Parameters& parameters, const std::string& name, int64_t in)
    : one_(branch(parameters, name, {same_size("branch1x1", in, 320)})),
      three_(branch(parameters, name, {same_size("branch3x3_1", in, 384)})),
      three_wide_(branch(parameters, name, {same_size("branch3x3_2a", 384, 384, kWide3)})),
      three_tall_(branch(parameters, name, {same_size("branch3x3_2b", 384, 384, kTall3)})),
      three_twice_(branch(parameters, name,
                          {same_size("branch3x3dbl_1", in, 448), same_size("branch3x3dbl_2", 448, 384, 3)})),
      three_twice_wide_(branch(parameters, name, {same_size("branch3x3dbl_3a", 384, 384, kWide3)})),
      three_twice_tall_(branch(parameters, name, {same_size("branch3x3dbl_3b", 384, 384, kTall3)})),
      pooled_(branch(parameters, name, {same_size("branch_pool", in, 192)})) {}

at::Tensor InceptionE::operator()(const at::Tensor& x, const Context& context) const {
  const at::Tensor one = one_(x, context);
  at::Tensor split = three_(x, context);
  const at::Tensor three_wide = three_wide_(split, context);
  // Joined by twos and then all together, as torchvision does: the joints are kept for the backward pass.
  const at::Tensor three = kernels::concatenate({three_wide, three_tall_(split, context)});
  split = three_twice_(x, context);
  const at::Tensor three_twice_wide = three_twice_wide_(split, context);
  const at::Tensor three_twice = kernels::concatenate({three_twice_wide, three_twice_tall_(split, context)});
  return kernels::concatenate({one, three, three_twice, pooled_(average(x, context), context)});
}

}  // namespace lockstep::models
