#pragma once

#include <string>

namespace lockstep::kernels::onednn {

/// Instruction sets for which lockstep's own loops are compiled. A processor uses the best one that it
/// supports.
enum class InstructionSet { kAny, kAvx2, kAvx512 };

/// The instruction set of this processor, limited by ONEDNN_MAX_CPU_ISA as oneDNN's is, so that one setting
/// holds for all kernels. kAny in a build without oneDNN.
InstructionSet instruction_set();

/// Whether oneDNN may use AMX, which multiplies tiles of bf16; ONEDNN_MAX_CPU_ISA limits it as well.
bool has_amx();

/// Why oneDNN cannot be used; empty if it can.
std::string why_unusable();

/// oneDNN's version and instruction set: "oneDNN 3.2.0, avx512_core_bf16"; empty in a build without oneDNN.
std::string version_and_instructions();

}  // namespace lockstep::kernels::onednn
