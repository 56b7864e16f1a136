#include "lockstep/comm/mpi/mpi_message.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/mpi/mpi_session.h"
#include "lockstep/comm/mpi/mpi_types.h"

namespace lockstep::comm {

void MpiMessage::start_send(MPI_Comm comm, int peer, int tag) {
  const MpiBlock block(buffer_.bytes());
  check_mpi(MPI_Isend(buffer_.data, block.count(), block.type(), peer, tag, comm, &request_), "MPI_Isend");
}

void MpiMessage::start_receive(MPI_Comm comm, int peer, int tag) {
  receives_ = true;
  const MpiBlock block(buffer_.bytes());
  check_mpi(MPI_Irecv(buffer_.data, block.count(), block.type(), peer, tag, comm, &request_), "MPI_Irecv");
}

void MpiMessage::finish(const MPI_Status& status) {
  if (!receives_) return complete();
  MPI_Count bytes = 0;
  check_mpi(MPI_Get_elements_x(&status, MPI_BYTE, &bytes), "MPI_Get_elements_x");
  if (size_t(bytes) != buffer_.bytes()) {
    throw CommError(fmt::format("{}: rank {} sent {} bytes, {} expected", info().describe(),
                                status.MPI_SOURCE, bytes, buffer_.bytes()),
                    "sender and receiver must agree on the size of a message");
  }
  complete(status.MPI_SOURCE);
}

bool MpiMessage::poll() noexcept {
  if (has_outcome()) return true;
  const std::unique_lock asker(asking_, std::try_to_lock);
  if (!asker) return has_outcome();
  if (has_outcome()) return true;
  try {
    int done = 0;
    MPI_Status status;
    check_mpi(MPI_Test(&request_, &done, &status), "MPI_Test");
    if (done != 0) {
      finish(status);
    } else if (Clock::now() > deadline_) {
      throw TimeoutError(info().describe() + " did not complete in time",
                         "see whether the other side takes part");
    }
  } catch (...) {
    fail(Failure::from_current_exception());
  }
  return has_outcome();
}

bool MpiMessage::test() {
  poll();
  return Operation::test();
}

bool MpiMessage::wait_until(Deadline deadline) {
  poll();
  return Operation::wait_until(deadline);
}

}  // namespace lockstep::comm
