#include "lockstep/comm/staging/copy_engine.h"

#include <dlfcn.h>

#include "lockstep/base/plugin_file.h"

namespace lockstep::comm {
namespace {

/// Opened at the first call; open_plugin_file keeps it open and finds it again.
const CopyEnginePluginV1& plugin() {
  const PluginFile file{.name = "cuda_copies",
                        .purpose = "memory of a GPU over a backend of host memory",
                        .library = "the CUDA runtime",
                        .install_advice =
                            "install CUDA, or put the folder of LibTorch's copy (nvidia/cu13/lib of "
                            "the Python packages) in LD_LIBRARY_PATH",
                        .build_advice =
                            "it is built where the CUDA toolkit is: install that, then build "
                            "lockstep again",
                        .open_flags = RTLD_NOW | RTLD_LOCAL};
  return *static_cast<const CopyEnginePluginV1*>(
      open_plugin_file(file, "lockstep_copy_engine_plugin", kCopyEnginePluginAbiVersion));
}

}  // namespace

std::shared_ptr<CopyEngine> open_copy_engine(int device) {
  return std::shared_ptr<CopyEngine>(plugin().open(device));
}

void require_copy_engine() {
  plugin();
}

}  // namespace lockstep::comm
