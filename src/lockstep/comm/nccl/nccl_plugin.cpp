#include <nccl.h>

#include "lockstep/comm/cuda/cuda_check.h"
#include "lockstep/comm/nccl/nccl_communicator.h"
#include "lockstep/comm/plugin.h"

namespace {

#define LOCKSTEP_TEXT(number) #number
#define LOCKSTEP_VERSION_TEXT(major, minor, patch) \
  LOCKSTEP_TEXT(major) "." LOCKSTEP_TEXT(minor) "." LOCKSTEP_TEXT(patch)

lockstep::comm::Communicator* connect(const lockstep::comm::ConnectOptions& options) {
  return lockstep::comm::connect_nccl(options).release();
}

void check() {
  lockstep::comm::count_gpus();
}

constexpr lockstep::comm::PluginV2 kPlugin = {
    lockstep::comm::kPluginAbiVersion, "NCCL " LOCKSTEP_VERSION_TEXT(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH),
    connect, check};

}  // namespace

extern "C" [[gnu::visibility("default")]] const lockstep::comm::PluginV2* lockstep_backend_plugin() {
  return &kPlugin;
}
