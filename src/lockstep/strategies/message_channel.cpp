#include "lockstep/strategies/message_channel.h"

namespace lockstep::strategies {

MessageChannel::MessageChannel(comm::Communicator& group)
    : group_(group.split_first(group.size())), rank_(group.rank()), size_(group.size()) {}

comm::WorkPtr MessageChannel::broadcast(const comm::Buffer& buffer, int root) {
  const std::lock_guard lock(mutex_);
  return group_->broadcast(buffer, root);
}

comm::WorkPtr MessageChannel::send(const comm::Buffer& buffer, int peer, int tag) {
  const std::lock_guard lock(mutex_);
  return group_->send(buffer, peer, tag);
}

comm::WorkPtr MessageChannel::receive(const comm::Buffer& buffer, int peer, int tag) {
  const std::lock_guard lock(mutex_);
  return group_->receive(buffer, peer, tag);
}

comm::WorkPtr MessageChannel::receive_any(const comm::Buffer& buffer, int tag) {
  const std::lock_guard lock(mutex_);
  return group_->receive_any(buffer, tag);
}

}  // namespace lockstep::strategies
