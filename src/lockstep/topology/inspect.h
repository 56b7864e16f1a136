#pragma once

#include "lockstep/topology/machine.h"

namespace lockstep::topology {

/// Looks at the host that the calling process runs on, within what its affinity mask and cgroups leave it.
/// Takes some milliseconds. Never throws: what cannot be read stays empty, and unlimited is assumed.
Machine inspect_host();

}  // namespace lockstep::topology
