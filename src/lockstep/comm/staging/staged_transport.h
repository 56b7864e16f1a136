#pragma once

#include <memory>

#include "lockstep/comm/staging/copy_engine.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm {

constexpr size_t kStagedPieceBytes = size_t{4} << 20;

/// Extends `host`, a transport of host memory, to device memory, which passes through pinned host memory in
/// pieces of about `piece_bytes`; some are copied while another one is exchanged among the ranks.
std::shared_ptr<Transport> make_staged_transport(std::shared_ptr<Transport> host,
                                                 std::shared_ptr<CopyEngine> engine,
                                                 size_t piece_bytes = kStagedPieceBytes);

}  // namespace lockstep::comm
