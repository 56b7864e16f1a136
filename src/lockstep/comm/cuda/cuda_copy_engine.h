#pragma once

#include "lockstep/comm/staging/copy_engine.h"

namespace lockstep::comm {

/// The copy engine of GPU number `device`: a stream for each lane. Throws BackendMissing, ConfigError for a
/// number that no GPU has, CommError. The caller owns it.
CopyEngine* open_cuda_copy_engine(int device);

}  // namespace lockstep::comm
