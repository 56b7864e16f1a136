#include <mpi.h>

#include "lockstep/comm/mpi/mpi_transport.h"
#include "lockstep/comm/plugin.h"
#include "lockstep/comm/queued_communicator.h"
#include "lockstep/comm/staging/staged_transport.h"

namespace {

#define LOCKSTEP_TEXT(number) #number
#define LOCKSTEP_VERSION_TEXT(major, minor, patch) \
  LOCKSTEP_TEXT(major) "." LOCKSTEP_TEXT(minor) "." LOCKSTEP_TEXT(patch)

lockstep::comm::Communicator* connect(const lockstep::comm::ConnectOptions& options) {
  return lockstep::comm::make_communicator(
             lockstep::comm::connect_staged(lockstep::comm::connect_mpi_transport, options), options.timeout)
      .release();
}

constexpr lockstep::comm::PluginV2 kPlugin = {
    lockstep::comm::kPluginAbiVersion,
    "Open MPI " LOCKSTEP_VERSION_TEXT(OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION), connect};

}  // namespace

extern "C" [[gnu::visibility("default")]] const lockstep::comm::PluginV2* lockstep_backend_plugin() {
  return &kPlugin;
}
