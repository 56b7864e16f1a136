#include "lockstep/kernels/kernel_choice.h"

#include "lockstep/kernels/onednn/instruction_set.h"

namespace lockstep::kernels {

namespace {

KernelChoice parse_default() {
  return why_no_fused_kernels().empty() ? KernelChoice::kFused : KernelChoice::kAten;
}

}  // namespace

const Registry<KernelsInfo>& registry() {
  static const Registry<KernelsInfo> all(
      "kernels", "lockstep info kernels",
      {{"aten",
        {.choice = KernelChoice::kAten,
         .description = "LibTorch's operations, one after the other",
         .covers = {},
         .falls_back = {}}},
       {kAuto,
        {.choice = parse_default(),
         .description =
             "of aten and fused the faster for each network, measured for some steps before its rows",
         .covers = {},
         .falls_back = {}}},
       {"fused",
        {.choice = KernelChoice::kFused,
         .description = "oneDNN's and own ones, in the layouts that suit them",
         .covers =
             {"convolutions with bias and ReLU, whose channels fill blocks of 16 (AVX-512) or 8",
              "of these most 3x3 ones of stride 1 in fp32 by Winograd's minimal filtering (AVX2, AVX-512)",
              "convolutions of the network's images, of up to three channels",
              "convolutions in groups, narrow ones in a layout of their own",
              "batch normalization with the addition and the ReLU that follow it",
              "maximum and mean pooling, and the mean over the whole image", "linear layers",
              "on GPUs batch normalization alone, with what follows it (not the default there)"},
         .falls_back = {"local response normalization, and layers whose channels fill no blocks",
                        "what oneDNN has no fast code for on this processor",
                        "evaluation, whole: these kernels are for training"}}}});
  return all;
}

KernelChoice parse_kernels(const std::string& name) {
  return registry().get(name).choice;
}

std::string why_no_fused_kernels() {
  return onednn::why_unusable();
}

std::string kernel_detail(const std::string& name, bool on_gpu) {
  if (name == kAuto || parse_kernels(name) != KernelChoice::kFused) return "";
  if (on_gpu) return "lockstep_cuda_kernels";
  return why_no_fused_kernels().empty() ? onednn::version_and_instructions() : "";
}

std::string default_kernels() {
  return parse_default() == KernelChoice::kFused ? "fused" : "aten";
}

}  // namespace lockstep::kernels
