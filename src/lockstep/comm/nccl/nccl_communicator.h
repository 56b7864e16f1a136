#pragma once

#include <memory>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/communicator.h"

namespace lockstep::comm {

/// Collective. A communicator straight over NCCL on options.cuda_device.
///
/// Operations are put into a stream of the communicator's own by the calling thread, in the order of the
/// calls: asynchronous for the GPU from the first on, while the host only waits until NCCL has taken them.
/// In a stream that is being captured into a CUDA graph a collective becomes a branch of that graph, which
/// has to be joined before the capture ends: by Work::wait_in_stream with the captured stream; nothing else
/// waits for it.
///
/// NCCL knows no tags (Capabilities::message_tags), and does not compare the sizes of a message's two ends.
///
/// Throws BackendMissing, ConfigError (a GPU that is not there or not this rank's alone), TimeoutError,
/// CommError.
std::unique_ptr<Communicator> connect_nccl(const ConnectOptions& options);

}  // namespace lockstep::comm
