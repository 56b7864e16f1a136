#pragma once

#include <memory>
#include <span>
#include <string>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/operation.h"

namespace lockstep::comm {

class CopyEngine;

/// The part of a backend that differs from the others; QueuedCommunicator makes a Communicator of it.
/// Arguments are checked already, size() is at least 2, and buffers may be empty.
///
/// run and split block, asleep, until they are done, are called one at a time on the progress thread, or run
/// on the caller's where keeps_deadline(), and throw TimeoutError, PeerLostError or CommError. start is
/// called on the caller's thread, concurrently.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string backend() const = 0;
  virtual Capabilities capabilities() const { return {}; }

  /// Announces that `collective` is about to be queued: called on the caller's thread, in the order of the
  /// collectives, so that a transport can mark how far the buffers' streams are at this moment.
  virtual void issuing([[maybe_unused]] const Collective& collective) {}

  /// Collective. See the named functions of Communicator.
  virtual void run(const Collective& collective, Deadline deadline) = 0;
  /// Whether run() of this collective returns or throws soon after its deadline and after abort(), whatever
  /// the other ranks do, and from any thread: only then, or where all have arrived, may a caller's thread be
  /// inside it.
  virtual bool keeps_deadline([[maybe_unused]] const Collective& collective) const { return false; }

  /// Collective. Null on ranks that are not among `ranks`, and when there is only one.
  virtual std::shared_ptr<Transport> split(std::span<const int> ranks, Deadline deadline) = 0;

  /// Starts one end of a message. The transport keeps what it needs until the operation has an outcome,
  /// whether or not the caller does.
  virtual std::shared_ptr<Operation> start(const Message& message, Deadline deadline) = 0;

  /// Whether no message is in flight.
  virtual bool messages_idle() = 0;

  /// Makes everything that blocks in this transport, and all pending messages, fail soon with `why`, here and
  /// as far as possible on the other ranks. From any thread, at most once; nothing works afterwards.
  virtual void abort(const Failure& why) noexcept = 0;

  /// Called once after the last use, before destruction, also after abort.
  virtual void close() noexcept {}

  /// The engine that copies this rank's device memory; null for a rank without a device.
  virtual std::shared_ptr<CopyEngine> copy_engine() const { return nullptr; }

  /// Processor seconds of the transport's own threads.
  virtual double helper_cpu_s() const { return 0; }
};

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
