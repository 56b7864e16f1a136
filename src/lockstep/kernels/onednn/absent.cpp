// Replaces the other files of this folder in a build without oneDNN. Covers no layer.

#include "lockstep/kernels/onednn/fused_layers.h"
#include "lockstep/kernels/onednn/instruction_set.h"

namespace lockstep::kernels::onednn {

struct ConvPlan {};

InstructionSet instruction_set() {
  return InstructionSet::kAny;
}

bool has_amx() {
  return false;
}

std::string why_unusable() {
  return "lockstep was built without oneDNN";
}

std::string version_and_instructions() {
  return "";
}

FusedConv::FusedConv(const ConvShape& shape, bool relu) : shape_(shape), relu_(relu) {}

FusedConv::~FusedConv() = default;

at::Tensor FusedConv::operator()(const at::Tensor& /*x*/, const at::Tensor& /*weight*/,
                                 const at::Tensor& /*bias*/, const replica::GradientPlace& /*place*/) {
  return {};
}

struct LinearPlan {};

FusedLinear::FusedLinear() = default;
FusedLinear::~FusedLinear() = default;

at::Tensor FusedLinear::operator()(const at::Tensor& /*x*/, const at::Tensor& /*weight*/,
                                   const at::Tensor& /*bias*/, const replica::GradientPlace& /*place*/) {
  return {};
}

at::Tensor fused_pool(const at::Tensor& /*x*/, const PoolShape& /*shape*/, PoolKind /*kind*/) {
  return {};
}

}  // namespace lockstep::kernels::onednn
