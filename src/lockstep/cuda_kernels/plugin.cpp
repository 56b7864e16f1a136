#include "lockstep/cuda_kernels/plugin.h"

#include <dlfcn.h>

#include "lockstep/base/plugin_file.h"

namespace lockstep::cuda_kernels {

const KernelsPluginV1& open_kernels() {
  static const PluginFile kFile{
      .name = "cuda_kernels",
      .purpose = "--kernels fused on GPUs",
      .library = "the CUDA runtime",
      .install_advice =
          "install CUDA, or put the folder of LibTorch's copy (nvidia/cu13/lib of the Python packages) "
          "in LD_LIBRARY_PATH, or use --kernels aten",
      .build_advice =
          "it is built where the CUDA toolkit with nvcc is: install that, then build lockstep again, or "
          "use --kernels aten",
      .open_flags = RTLD_NOW | RTLD_LOCAL};
  // Opened once: every step asks for it.
  static const void* const opened =
      open_plugin_file(kFile, "lockstep_cuda_kernels_plugin", kKernelsAbiVersion);
  return *static_cast<const KernelsPluginV1*>(opened);
}

}  // namespace lockstep::cuda_kernels
