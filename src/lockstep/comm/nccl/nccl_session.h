#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/comm/nccl/nccl_watch.h"
#include "lockstep/comm/session.h"

namespace lockstep::comm {

/// The session of an NCCL communicator. Puts operations into the communicator's stream: after the work that
/// their buffers' streams hold at that moment, in the order of the calls, and into the CUDA graph that those
/// streams are being captured into, if any. Thread-safe.
class NcclSession final : public Session {
 public:
  static std::shared_ptr<NcclSession> create(std::shared_ptr<NcclLink> link, Duration timeout);

  const NcclLink& link() const { return *link_; }

  /// `call`: see NcclLink::launch; null for an operation without data.
  std::shared_ptr<NcclOperation> issue(OperationInfo info, const std::vector<Buffer>& buffers,
                                       const NcclLink::Call& call);
  /// Keeps a message until the next flush(), which issues all messages held by then as one NCCL group: sends
  /// and receives that need each other make progress only in a group.
  std::shared_ptr<NcclOperation> hold(OperationInfo info, const Buffer& buffer, NcclLink::Call call);
  /// Issues the messages held by this and all other communicators of this GPU, in the order in which they
  /// began to hold, which is the same on all ranks. issue() and split() do so first. Throws when this
  /// communicator fails at it; others report their failures themselves.
  void flush();

  /// Waits for everything in flight, then splits. See NcclLink::split.
  std::shared_ptr<NcclLink> split(bool member, int new_rank, int new_size);
  std::shared_ptr<void> allocate(size_t bytes);

  /// Reports the end of `operation` without delay: a thread of the host waits for it.
  void hurry(NcclOperation& operation);

  /// Abandons what is in flight and ends NCCL's communicator.
  void shut_down();

 private:
  struct Held {
    std::shared_ptr<NcclOperation> operation;
    Buffer buffer;
    NcclLink::Call call;
  };

  NcclSession(std::shared_ptr<NcclLink> link, Duration timeout);
  void abandon(const Failure& failure) override { watch_->fail(failure); }
  double own_cpu_s() const override { return watch_->cpu_s(); }
  void flush_held();
  /// Whether the operation becomes part of a CUDA graph. Throws ConfigError when only some of its streams are
  /// being captured.
  bool captured(const char* name, const std::vector<Buffer>& buffers) const;
  void put(const std::vector<std::shared_ptr<NcclOperation>>& operations, const std::vector<Buffer>& buffers,
           const NcclLink::Call& call, bool is_captured);
  /// Runs `action`. An exception makes the communicator unusable, fails `operations`, and is rethrown.
  template <typename Action>
  void or_break(const std::string& what, const std::vector<std::shared_ptr<NcclOperation>>& operations,
                Action action);

  const std::shared_ptr<NcclLink> link_;
  std::unique_ptr<NcclWatch> watch_;
  /// Held while an operation is issued.
  std::mutex issuing_;
  std::vector<Held> held_;
  /// Marks how far a buffer's stream is; reused for every operation.
  CudaEvent ready_;
};

}  // namespace lockstep::comm
