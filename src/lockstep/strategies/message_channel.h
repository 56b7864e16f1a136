#pragma once

#include <memory>
#include <mutex>

#include "lockstep/comm/communicator.h"

namespace lockstep::strategies {

/// A communicator on which two threads of a rank may start operations at the same time: split off
/// from another one, with a lock around every start.
class MessageChannel {
 public:
  /// Collective over `group`.
  explicit MessageChannel(comm::Communicator& group)
      : group_(group.split_first(group.size())), rank_(group.rank()), size_(group.size()) {}

  int rank() const { return rank_; }
  int size() const { return size_; }

  // The operations of Communicator.

  comm::WorkPtr broadcast(const comm::Buffer& buffer, int root) {
    const std::lock_guard lock(mutex_);
    return group_->broadcast(buffer, root);
  }
  comm::WorkPtr send(const comm::Buffer& buffer, int peer, int tag) {
    const std::lock_guard lock(mutex_);
    return group_->send(buffer, peer, tag);
  }
  comm::WorkPtr receive(const comm::Buffer& buffer, int peer, int tag) {
    const std::lock_guard lock(mutex_);
    return group_->receive(buffer, peer, tag);
  }
  comm::WorkPtr receive_any(const comm::Buffer& buffer, int tag) {
    const std::lock_guard lock(mutex_);
    return group_->receive_any(buffer, tag);
  }

  /// Abandons the operations in flight. Nothing may be started afterwards.
  void close() { group_.reset(); }

 private:
  std::unique_ptr<comm::Communicator> group_;
  int rank_ = 0;
  int size_ = 0;
  std::mutex mutex_;
};

}  // namespace lockstep::strategies
