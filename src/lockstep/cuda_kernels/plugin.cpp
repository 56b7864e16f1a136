#include "lockstep/cuda_kernels/plugin.h"

#include <dlfcn.h>

#include "lockstep/base/plugin_file.h"

namespace lockstep::cuda_kernels {

const KernelsPluginV1& open_kernels() {
  const PluginFile file{
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
  return *static_cast<const KernelsPluginV1*>(
      open_plugin_file(file, "lockstep_cuda_kernels_plugin", kKernelsAbiVersion));
}

}  // namespace lockstep::cuda_kernels
