#include "lockstep/comm/nccl/nccl_errors.h"

#include <string>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {

void check_nccl(ncclResult_t result, const char* call, ncclComm_t comm) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  std::string text = fmt::format("NCCL: {}: {}", call, ncclGetErrorString(result));
  // May be about something else that failed at the same time, and is empty more often than not.
  if (const char* last = ncclGetLastError(comm); last != nullptr && *last != '\0') {
    text += fmt::format(" ({})", last);
  }
  if (result == ncclRemoteError) {
    throw PeerLostError(text, "another rank ended or lost its network; its own output says why");
  }
  throw CommError(text, "NCCL_DEBUG=WARN in the environment makes NCCL say more");
}

}  // namespace lockstep::comm
