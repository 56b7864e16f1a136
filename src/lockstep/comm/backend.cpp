#include "lockstep/comm/backend.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/names.h"
#include "lockstep/comm/plugin.h"
#include "lockstep/comm/queued_communicator.h"
#include "lockstep/comm/staging/copy_engine.h"
#include "lockstep/comm/thread/thread_transport.h"

namespace lockstep::comm {
namespace {

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
