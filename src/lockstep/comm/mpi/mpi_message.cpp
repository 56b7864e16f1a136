#include "lockstep/comm/mpi/mpi_message.h"

#include <iterator>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/mpi/mpi_session.h"

namespace lockstep::comm {

void MpiMessage::start(MPI_Comm comm) {
  const Buffer& buffer = message_.buffer;
  const MpiBlock block(buffer.bytes());
  if (message_.kind == Message::Kind::kSend) {
    check_mpi(
        MPI_Isend(buffer.data, block.count(), block.type(), message_.peer, message_.tag, comm, &request_),
        "MPI_Isend");
  } else {
    const int source = message_.kind == Message::Kind::kReceiveAny ? MPI_ANY_SOURCE : message_.peer;
    check_mpi(MPI_Irecv(buffer.data, block.count(), block.type(), source, message_.tag, comm, &request_),
              "MPI_Irecv");
  }
}

void MpiMessage::finish(const MPI_Status& status) {
  if (message_.kind == Message::Kind::kSend) return complete();
  // The size that arrived: MPI accepts a message that is shorter than the buffer.
  MPI_Count bytes = 0;
  check_mpi(MPI_Get_elements_x(&status, MPI_BYTE, &bytes), "MPI_Get_elements_x");
  if (size_t(bytes) != message_.buffer.bytes()) {
    throw CommError(fmt::format("{}: rank {} sent {} bytes, {} expected", info().describe(),
                                status.MPI_SOURCE, bytes, message_.buffer.bytes()),
                    "sender and receiver must agree on the size of a message");
  }
  complete(status.MPI_SOURCE);
}

bool MpiMessage::poll() noexcept {
  if (has_outcome()) return true;
  // Another thread that asks at this moment finds the outcome just as well.
  const std::unique_lock asker(asking_, std::try_to_lock);
  if (!asker) return has_outcome();
  // Asked again: the thread that held the lock may have set it.
  if (has_outcome()) return true;
  try {
    int done = 0;
    MPI_Status status;
    check_mpi(MPI_Test(&request_, &done, &status), "MPI_Test");
    if (done != 0) {
      finish(status);
    } else if (Clock::now() > deadline_) {
      throw TimeoutError(info().describe() + " did not complete in time",
                         "check that the other side takes part");
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
  // One check before sleeping: MessagePoller may not come round for half a millisecond.
  poll();
  return Operation::wait_until(deadline);
}

MessagePoller::~MessagePoller() {
  stop();
}

void MessagePoller::add(std::shared_ptr<MpiMessage> message) {
  std::lock_guard lock(mutex_);
  added_.push_back(std::move(message));
  // Started with the first message; a job without messages has no such thread.
  if (!thread_.joinable()) thread_ = HelperThread("ls-message", [this] { run(); });
  changed_.notify_all();
}

void MessagePoller::run() {
  std::vector<std::shared_ptr<MpiMessage>> pending;
  Backoff backoff;
  std::unique_lock lock(mutex_);
  while (true) {
    if (pending.empty()) changed_.wait(lock, [this] { return stopping_ || !added_.empty(); });
    if (stopping_) return;
    bool news = !added_.empty();
    pending.insert(pending.end(), std::make_move_iterator(added_.begin()),
                   std::make_move_iterator(added_.end()));
    added_.clear();
    // MPI is asked without the lock: add() must not wait for it.
    lock.unlock();
    news = std::erase_if(pending, [](const auto& message) { return message->poll(); }) > 0 || news;
    if (news) {
      backoff = Backoff();
    } else {
      backoff.pause();
    }
    lock.lock();
  }
}

void MessagePoller::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

double MessagePoller::cpu_s() const {
  std::lock_guard lock(mutex_);
  return thread_.cpu_s();
}

}  // namespace lockstep::comm
