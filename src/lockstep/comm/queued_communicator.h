#pragma once

#include <memory>
#include <string>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm {

/// A Communicator of a backend's Transport: checks arguments, carries out the collectives in order on a
/// progress thread, and makes the first failure or time-out final.
std::unique_ptr<Communicator> make_communicator(std::shared_ptr<Transport> transport, Duration timeout);

/// Collective. The same for a transport that `connect` makes. A rank with a GPU (options.cuda_device >= 0)
/// gets its memory staged through that GPU's copy engine. Throws what `connect` throws, and before that
/// BackendMissing when there is no engine.
std::unique_ptr<Communicator> connect_transport(
    std::shared_ptr<Transport> (*connect)(const ConnectOptions& options), const ConnectOptions& options);

/// The communicator of a single rank, which needs no library: every operation is done at once. `engine`: for
/// memory of the rank's GPU, null without one.
std::unique_ptr<Communicator> make_solo_communicator(std::string backend, Duration timeout,
                                                     std::shared_ptr<CopyEngine> engine = nullptr);

/// Collective. Joins the ranks of this process that pass the same Store, each from its own thread.
std::shared_ptr<Transport> connect_thread_transport(const ConnectOptions& options);

constexpr size_t kStagedPieceBytes = size_t{4} << 20;

/// Extends `host`, a transport of host memory, to device memory, which passes through pinned host memory in
/// pieces of about `piece_bytes`; some are copied while another one is exchanged among the ranks.
std::shared_ptr<Transport> make_staged_transport(std::shared_ptr<Transport> host,
                                                 std::shared_ptr<CopyEngine> engine,
                                                 size_t piece_bytes = kStagedPieceBytes);

}  // namespace lockstep::comm
