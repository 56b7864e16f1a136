#include "lockstep/replica/cuda_graph/open_cuda_graph.h"

#include <dlfcn.h>

#include "lockstep/base/plugin_file.h"

namespace lockstep::replica {

const CudaGraphPluginV1& open_cuda_graph() {
  const PluginFile file{
      .name = "cuda_graph",
      .purpose = "recording steps in a CUDA graph",
      .library = "LibTorch's part for CUDA",
      .install_advice = "use the LibTorch that lockstep was built with, or leave out --cuda-graph",
      .build_advice =
          "it is built where the CUDA toolkit is: install that, then build lockstep again, or "
          "leave out --cuda-graph",
      .open_flags = RTLD_NOW | RTLD_LOCAL};
  return *static_cast<const CudaGraphPluginV1*>(
      open_plugin_file(file, "lockstep_cuda_graph_plugin", kCudaGraphPluginAbiVersion));
}

}  // namespace lockstep::replica
