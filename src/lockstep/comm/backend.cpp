#include "lockstep/comm/backend.h"

#include <algorithm>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/names.h"
#include "lockstep/base/plugin_file.h"
#include "lockstep/comm/plugin.h"
#include "lockstep/comm/staging/copy_engine.h"
#include "lockstep/comm/transport.h"

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

/// Opens lockstep_<backend>.so, whose one symbol is the function `lockstep_backend_plugin`, once per process
/// and never closed, and checks that it can work. Thread-safe. Throws BackendMissing, which says what to
/// install.
const BackendPlugin& open_plugin(const std::string& backend) {
  const auto& plugin = *static_cast<const BackendPlugin*>(
      open_plugin_file(file_of(backend), "lockstep_backend_plugin", kPluginAbiVersion));
  if (plugin.check != nullptr) plugin.check();
  return plugin;
}

void check_name(const std::string& name) {
  const std::vector<std::string> names = backend_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    throw_unknown_name("backend", name, names, "lockstep info backends");
  }
}

void check_options(const ConnectOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    throw ConfigError(
        fmt::format("rank {} of {} ranks is not in [0, {})", options.rank, options.size, options.size));
  }
  if (!(options.timeout.count() > 0)) {
    throw ConfigError(fmt::format("a time-out of {} s is not positive", options.timeout.count()));
  }
}

void check_store(const std::string& backend, const ConnectOptions& options) {
  if (options.store == nullptr)
    throw ConfigError(fmt::format("the {} backend needs a rendezvous store", backend));
}

std::unique_ptr<Communicator> connect_alone(const std::string& backend, const ConnectOptions& options) {
  // GPU memory is copied within one rank too, by all_gather and the like.
  std::shared_ptr<CopyEngine> engine;
  if (options.cuda_device >= 0) engine = open_copy_engine(options.cuda_device);
  return make_solo_communicator(backend, options.timeout, std::move(engine));
}

}  // namespace

std::vector<std::string> backend_names() {
  return {"thread", "gloo", "mpi", "nccl"};
}

BackendStatus backend_status(const std::string& name) {
  check_name(name);
  if (name == "thread") return {name, true, "built in", ""};
  try {
    return {name, true, open_plugin(name).library, ""};
  } catch (const Error& error) {
    return {name, false, error.what(), error.advice()};
  }
}

std::unique_ptr<Communicator> connect(const std::string& backend, const ConnectOptions& options) {
  check_name(backend);
  check_options(options);
  // One rank needs no library. NCCL is used all the same: a run with one rank tests its path through the GPU.
  // The plugin is opened in any case, so that a backend that is not installed is refused at every size.
  const bool alone = options.size == 1 && backend != "nccl";
  const BackendPlugin* plugin = backend == "thread" ? nullptr : &open_plugin(backend);
  if (alone) return connect_alone(backend, options);
  if (backend != "mpi" && options.size > 1) check_store(backend, options);
  if (plugin != nullptr) return std::unique_ptr<Communicator>(plugin->connect(options));
  return connect_transport(connect_thread_transport, options);
}

}  // namespace lockstep::comm
