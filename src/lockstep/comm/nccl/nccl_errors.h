#pragma once

#include <nccl.h>

namespace lockstep::comm {

/// Throws unless `result` is ncclSuccess or ncclInProgress: PeerLostError when another rank or the network is
/// gone, else CommError. `call`: the function's name; `comm`: for NCCL's own explanation, may be null.
void check_nccl(ncclResult_t result, const char* call, ncclComm_t comm);

/// body(keep_error) makes the calls of one NCCL group and hands each result to keep_error. The group is ended
/// in any case. The last call's error; without one, how the group's start or end went.
template <typename Body>
ncclResult_t grouped(const Body& body) {
  ncclResult_t result = ncclGroupStart();
  if (result != ncclSuccess) return result;
  body([&](ncclResult_t one) {
    if (one != ncclSuccess && one != ncclInProgress) result = one;
  });
  const ncclResult_t end = ncclGroupEnd();
  return result != ncclSuccess ? result : end;
}

}  // namespace lockstep::comm
