#include "lockstep/comm/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "lockstep/base/plugin_file.h"

namespace lockstep::comm {
namespace {

/// The library behind a backend's plugin.
struct Library {
  const char* name;
  /// Remedies when it is missing, for running and for building.
  const char* install;
  const char* build;
};

Library library_of(const std::string& backend) {
  if (backend == "mpi") {
    return {"Open MPI", "apt-get install openmpi-bin libopenmpi3",
            "apt-get install openmpi-bin libopenmpi3 libopenmpi-dev"};
  }
  if (backend == "nccl") {
    return {"NCCL and the CUDA runtime",
            "install NCCL 2 (libnccl2) and CUDA, or put the folders of LibTorch's copies "
            "(nvidia/nccl/lib, nvidia/cu13/lib of the Python packages) in LD_LIBRARY_PATH",
            "install the CUDA toolkit and NCCL with its header (libnccl-dev)"};
  }
  return {"Gloo", "apt-get install libgloo0", "apt-get install libgloo0 libgloo-dev"};
}

int open_flags(const std::string& backend) {
  // LibTorch exports a newer Gloo of its own under the same names; the plugin must bind to Debian's.
  if (backend == "gloo") return RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
  // Open MPI's own plugins do not list libmpi as a dependency and find it only in the global scope.
  if (backend == "mpi") return RTLD_NOW | RTLD_GLOBAL;
  return RTLD_NOW | RTLD_LOCAL;
}

PluginFile file_of(const std::string& backend) {
  const Library library = library_of(backend);
  return {.name = backend,
          .purpose = fmt::format("the {} backend", backend),
          .library = library.name,
          .install_advice = fmt::format("install it: {}", library.install),
          .build_advice = fmt::format("the {} backend needs {}: {}, then build lockstep again", backend,
                                      library.name, library.build),
          .open_flags = open_flags(backend)};
}

}  // namespace

const BackendPlugin& open_plugin(const std::string& backend) {
  const auto& plugin = *static_cast<const BackendPlugin*>(
      open_plugin_file(file_of(backend), "lockstep_backend_plugin", kPluginAbiVersion));
  if (plugin.check != nullptr) plugin.check();
  return plugin;
}

}  // namespace lockstep::comm
