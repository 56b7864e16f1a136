#include <gloo/config.h>

#include "lockstep/comm/gloo/gloo_transport.h"
#include "lockstep/comm/plugin.h"
#include "lockstep/comm/queued_communicator.h"
#include "lockstep/comm/staging/staged_transport.h"

namespace {

#define LOCKSTEP_TEXT(number) #number
#define LOCKSTEP_VERSION_TEXT(major, minor, patch) \
  LOCKSTEP_TEXT(major) "." LOCKSTEP_TEXT(minor) "." LOCKSTEP_TEXT(patch)

lockstep::comm::Communicator* connect(const lockstep::comm::ConnectOptions& options) {
  return lockstep::comm::make_communicator(
             lockstep::comm::connect_staged(lockstep::comm::connect_gloo_transport, options), options.timeout)
      .release();
}

constexpr lockstep::comm::PluginV2 kPlugin = {
    lockstep::comm::kPluginAbiVersion,
    "Gloo " LOCKSTEP_VERSION_TEXT(GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH), connect};

}  // namespace

extern "C" [[gnu::visibility("default")]] const lockstep::comm::PluginV2* lockstep_backend_plugin() {
  return &kPlugin;
}
