#pragma once

#include <memory>
#include <span>
#include <string>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/operation.h"

namespace lockstep::comm {

class CopyEngine;

/// What a backend implements; QueuedCommunicator makes a Communicator of it. Arguments are checked already,
/// size() is at least 2, and buffers may be empty.
///
/// Collectives and split block, asleep, until they are done, are called one at a time on the progress thread,
/// and throw TimeoutError, PeerLostError or CommError. Messages are started from the caller's thread, at the
/// same time.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string backend() const = 0;
  virtual Capabilities capabilities() const { return {}; }

  /// A collective on these (twice the same for one that has one) is about to be issued: called from the
  /// caller's thread, in the order of the collectives, for who must know how far the buffers' streams were.
  virtual void issuing([[maybe_unused]] const Buffer& input, [[maybe_unused]] const Buffer& output) {}

  virtual void all_reduce(const Buffer& buffer, ReduceOp op, Deadline deadline) = 0;
  virtual void reduce(const Buffer& buffer, ReduceOp op, int root, Deadline deadline) = 0;
  virtual void broadcast(const Buffer& buffer, int root, Deadline deadline) = 0;
  virtual void all_gather(const Buffer& input, const Buffer& output, Deadline deadline) = 0;
  virtual void reduce_scatter(const Buffer& input, const Buffer& output, ReduceOp op, Deadline deadline) = 0;
  virtual void all_to_all(const Buffer& input, const Buffer& output, Deadline deadline) = 0;
  virtual void barrier(Deadline deadline) = 0;
  /// Null on ranks that are not among `ranks`, and where there is only one.
  virtual std::shared_ptr<Transport> split(std::span<const int> ranks, Deadline deadline) = 0;

  /// The transport keeps what it needs until the operation has an outcome, whether or not the caller does.
  virtual std::shared_ptr<Operation> send(const Buffer& buffer, int peer, int tag, Deadline deadline) = 0;
  virtual std::shared_ptr<Operation> receive(const Buffer& buffer, int peer, int tag, Deadline deadline) = 0;
  virtual std::shared_ptr<Operation> receive_any(const Buffer& buffer, int tag, Deadline deadline) = 0;

  /// Whether no message is on its way.
  virtual bool messages_idle() = 0;

  /// Makes everything that blocks in this transport, and all pending messages, fail soon with `why`, here and
  /// as far as possible on the other ranks. From any thread, once at most; nothing works afterwards.
  virtual void abort(const Failure& why) noexcept = 0;

  /// Called once after the last use, before destruction, also after abort.
  virtual void close() noexcept {}

  /// What copies device memory for this rank; null where it has none.
  virtual std::shared_ptr<CopyEngine> copy_engine() const { return nullptr; }

  /// Processor seconds of threads of the transport's own.
  virtual double helper_cpu_s() const { return 0; }
};

}  // namespace lockstep::comm
