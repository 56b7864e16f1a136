#pragma once

#include <memory>
#include <mutex>

#include "lockstep/comm/communicator.h"

namespace lockstep::strategies {

/// A communicator of its own, split off for two threads of a rank to start operations on at the same time.
class MessageChannel {
 public:
  /// Collective over `group`.
  explicit MessageChannel(comm::Communicator& group);

  int rank() const { return rank_; }
  int size() const { return size_; }

  // As Communicator's.
  comm::WorkPtr broadcast(const comm::Buffer& buffer, int root);
  comm::WorkPtr send(const comm::Buffer& buffer, int peer, int tag);
  comm::WorkPtr receive(const comm::Buffer& buffer, int peer, int tag);
  comm::WorkPtr receive_any(const comm::Buffer& buffer, int tag);

  /// Abandons what is in flight; nothing may be started afterwards.
  void close() { group_.reset(); }

 private:
  std::unique_ptr<comm::Communicator> group_;
  int rank_ = 0;
  int size_ = 0;
  std::mutex mutex_;
};

}  // namespace lockstep::strategies
