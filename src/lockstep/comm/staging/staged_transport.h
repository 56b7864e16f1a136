#pragma once

#include <memory>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/staging/copy_engine.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm {

constexpr size_t kStagedPieceBytes = size_t{4} << 20;

/// `host`, which takes host memory, made to take device memory too: through pinned host memory, in pieces of
/// about `piece_bytes`, copied while other pieces are with the other ranks.
std::shared_ptr<Transport> make_staged_transport(std::shared_ptr<Transport> host,
                                                 std::shared_ptr<CopyEngine> engine,
                                                 size_t piece_bytes = kStagedPieceBytes);

/// What `connect` gives, as it is for a rank without a GPU (options.cuda_device < 0), else staged through
/// that GPU's copy engine. Throws what `connect` does, and before that BackendMissing when there is no
/// engine.
std::shared_ptr<Transport> connect_staged(
    std::shared_ptr<Transport> (*connect)(const ConnectOptions& options), const ConnectOptions& options);

}  // namespace lockstep::comm
