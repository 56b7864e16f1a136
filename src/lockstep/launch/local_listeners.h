#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep::launch {

/// Makes communication libraries that this process opens later listen on the loopback interface or not at
/// all: Open MPI and UCX keep to shared memory, NCCL's ranks meet on `lo`. For a rank whose job is on one
/// host. Variables that the user has set stay. Call before other threads exist.
void keep_listeners_local();

/// Environment variables with which an mpirun that starts ranks on this host only listens on the loopback
/// address. Open MPI has no setting for it, so they preload the plugin `loopback`; empty without that plugin.
std::vector<std::pair<std::string, std::string>> local_mpirun_variables();

}  // namespace lockstep::launch
