#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/nccl/nccl_watch.h"

namespace lockstep::comm {

/// What an NCCL communicator and its Works share; Works may outlive the communicator. Puts operations into
/// the communicator's stream: after what their buffers' streams hold at that moment, in the order of the
/// calls, and into the CUDA graph that those streams are being captured into, if they are. Thread-safe.
class NcclSession : public std::enable_shared_from_this<NcclSession> {
 public:
  static std::shared_ptr<NcclSession> create(std::shared_ptr<NcclLink> link, Duration timeout);

  const NcclLink& link() const { return *link_; }
  Duration timeout() const { return timeout_; }
  /// "rank 1 of 4 over nccl".
  const std::string& where() const { return where_; }

  /// `call`: see NcclLink::launch; null for an operation on nothing.
  std::shared_ptr<NcclOperation> issue(OperationInfo info, const std::vector<Buffer>& buffers,
                                       const NcclLink::Call& call);
  /// A message, which is issued with all others that are held by then, as one NCCL group: NCCL carries out
  /// sends and receives that need each other only in a group.
  std::shared_ptr<NcclOperation> hold(OperationInfo info, const Buffer& buffer, NcclLink::Call call);
  /// Issues what is held by this and all other communicators of this GPU, in the order in which they began to
  /// hold, which is the same on all ranks. issue() and split() do that first. Throws when this communicator
  /// fails at it; another one that does says so itself.
  void flush();

  /// Waits for all that is on its way, then splits. See NcclLink::split.
  std::shared_ptr<NcclLink> split(bool member, int new_rank, int new_size);
  void register_memory(void* data, size_t bytes);

  /// The host waits for `operation`, and hears of its end without delay.
  void hurry(NcclOperation& operation);

  /// Throws the first failure, if there was one.
  void check_usable() const;
  /// Makes `failure` final unless there is one already.
  void break_with(const Failure& failure);
  Failure timeout_failure(const Operation& operation, Duration waited) const;

  /// Abandons what is in flight and ends NCCL's communicator.
  void shut_down();

  double cpu_s() const { return watch_->cpu_s(); }

 private:
  struct Held {
    std::shared_ptr<NcclOperation> operation;
    Buffer buffer;
    NcclLink::Call call;
  };

  NcclSession(std::shared_ptr<NcclLink> link, Duration timeout);
  void flush_held();
  bool captured(const char* name, const std::vector<Buffer>& buffers) const;
  void put(const std::vector<std::shared_ptr<NcclOperation>>& operations, const std::vector<Buffer>& buffers,
           const NcclLink::Call& call, bool is_captured);
  /// Does it; what it throws makes the communicator unusable, fails `operations` and is thrown.
  template <typename Action>
  void or_break(const std::string& what, const std::vector<std::shared_ptr<NcclOperation>>& operations,
                Action action);

  const std::shared_ptr<NcclLink> link_;
  const Duration timeout_;
  const std::string where_;
  std::unique_ptr<NcclWatch> watch_;
  /// Held while something is issued.
  std::mutex issuing_;
  std::vector<Held> held_;
  /// Where the buffers' streams are; used again for every operation.
  CudaEvent ready_;
  mutable std::mutex mutex_;
  std::optional<Failure> failure_;
};

}  // namespace lockstep::comm
