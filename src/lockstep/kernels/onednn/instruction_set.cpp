#include "lockstep/kernels/onednn/instruction_set.h"

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.hpp>

namespace lockstep::kernels::onednn {
namespace {

/// The names that ONEDNN_MAX_CPU_ISA takes, in lower case.
const char* name_of(dnnl::cpu_isa isa) {
  switch (isa) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_fp16:
      return "avx512_core_fp16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    // Newer versions of oneDNN may know more.
    default:
      break;
  }
  switch (instruction_set()) {
    case InstructionSet::kAvx512:
      return "beyond avx512_core_amx";
    case InstructionSet::kAvx2:
      return "beyond avx2_vnni";
    case InstructionSet::kAny:
      break;
  }
  return "no vector instructions";
}

/// The values of dnnl::cpu_isa are bit sets: a larger instruction set has all bits of a smaller one.
bool has(dnnl::cpu_isa isa) {
  const auto bits = static_cast<unsigned>(isa);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bits) == bits;
}

}  // namespace

InstructionSet instruction_set() {
  static const InstructionSet set = has(dnnl::cpu_isa::avx512_core) ? InstructionSet::kAvx512
                                    : has(dnnl::cpu_isa::avx2)      ? InstructionSet::kAvx2
                                                                    : InstructionSet::kAny;
  return set;
}

bool has_amx() {
  static const bool amx = has(dnnl::cpu_isa::avx512_core_amx);
  return amx;
}

std::string why_unusable() {
  const dnnl_version_t* loaded = dnnl::version();
  if (loaded->major != DNNL_VERSION_MAJOR || loaded->minor < DNNL_VERSION_MINOR) {
    return fmt::format("the library is oneDNN {}.{}, lockstep was built for {}.{}", loaded->major,
                       loaded->minor, DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR);
  }
  if (loaded->cpu_runtime != DNNL_RUNTIME_OMP) return "the oneDNN library found does not run on OpenMP";
  return "";
}

std::string version_and_instructions() {
  const dnnl_version_t* loaded = dnnl::version();
  return fmt::format("oneDNN {}.{}.{}, {}", loaded->major, loaded->minor, loaded->patch,
                     name_of(dnnl::get_effective_cpu_isa()));
}

}  // namespace lockstep::kernels::onednn
