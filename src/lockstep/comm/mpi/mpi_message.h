#pragma once

#include <mutex>

#include <mpi.h>

#include "lockstep/comm/message_poller.h"
#include "lockstep/comm/types.h"

namespace lockstep::comm {

/// One message on its way. MPI moves and completes it only when somebody calls MPI, which the poller does.
class MpiMessage final : public PolledOperation {
 public:
  MpiMessage(OperationInfo info, const Buffer& buffer, Deadline deadline)
      : PolledOperation(info), buffer_(buffer), deadline_(deadline) {}

  /// Both throw CommError. `peer`: MPI_ANY_SOURCE for whoever sends next.
  void start_send(MPI_Comm comm, int peer, int tag);
  void start_receive(MPI_Comm comm, int peer, int tag);

  bool poll() noexcept override;
  bool test() override;
  bool wait_until(Deadline deadline) override;

 private:
  void finish(const MPI_Status& status);

  const Buffer buffer_;
  const Deadline deadline_;
  bool receives_ = false;
  /// Guards request_: MPI allows one thread at a time to ask for a request.
  std::mutex asking_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace lockstep::comm
