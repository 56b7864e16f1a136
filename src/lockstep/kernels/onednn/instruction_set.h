#pragma once

#include <string>

namespace lockstep::kernels::onednn {

/// What own loops are made for; others fall under the one below them.
enum class InstructionSet { kAny, kAvx2, kAvx512 };

/// Of this processor, within the limit that ONEDNN_MAX_CPU_ISA sets for oneDNN, so that one setting holds for
/// all kernels. kAny in a build without oneDNN.
InstructionSet instruction_set();

/// Why oneDNN cannot be used; empty where it can.
std::string why_unusable();

/// Of oneDNN: "oneDNN 3.2.0, avx512_core_bf16", in its own words; empty in a build without it.
std::string version_and_instructions();

}  // namespace lockstep::kernels::onednn
