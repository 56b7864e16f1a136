#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep::test {

/// Hands everything on to a real communicator and remembers how many bytes each all-reduce had.
class RecordingCommunicator final : public comm::Communicator {
 public:
  explicit RecordingCommunicator(std::unique_ptr<comm::Communicator> real) : real_(std::move(real)) {}

  const std::vector<size_t>& all_reduce_bytes() const { return all_reduce_bytes_; }
  void forget() { all_reduce_bytes_.clear(); }

  int rank() const override { return real_->rank(); }
  int size() const override { return real_->size(); }
  std::string backend() const override { return real_->backend(); }
  comm::Capabilities capabilities() const override { return real_->capabilities(); }
  comm::WorkPtr all_reduce(const comm::Buffer& buffer, comm::ReduceOp op) override {
    all_reduce_bytes_.push_back(buffer.bytes());
    return real_->all_reduce(buffer, op);
  }
  comm::WorkPtr reduce(const comm::Buffer& buffer, comm::ReduceOp op, int root) override {
    return real_->reduce(buffer, op, root);
  }
  comm::WorkPtr broadcast(const comm::Buffer& buffer, int root) override {
    return real_->broadcast(buffer, root);
  }
  comm::WorkPtr all_gather(const comm::Buffer& input, const comm::Buffer& output) override {
    return real_->all_gather(input, output);
  }
  comm::WorkPtr reduce_scatter(const comm::Buffer& input, const comm::Buffer& output,
                               comm::ReduceOp op) override {
    return real_->reduce_scatter(input, output, op);
  }
  comm::WorkPtr all_to_all(const comm::Buffer& input, const comm::Buffer& output) override {
    return real_->all_to_all(input, output);
  }
  comm::WorkPtr barrier() override { return real_->barrier(); }
  comm::WorkPtr send(const comm::Buffer& buffer, int peer, int tag) override {
    return real_->send(buffer, peer, tag);
  }
  comm::WorkPtr receive(const comm::Buffer& buffer, int peer, int tag) override {
    return real_->receive(buffer, peer, tag);
  }
  comm::WorkPtr receive_any(const comm::Buffer& buffer, int tag) override {
    return real_->receive_any(buffer, tag);
  }
  std::unique_ptr<comm::Communicator> split(std::span<const int> ranks) override {
    return real_->split(ranks);
  }
  comm::Duration timeout() const override { return real_->timeout(); }

 private:
  std::unique_ptr<comm::Communicator> real_;
  std::vector<size_t> all_reduce_bytes_;
};

}  // namespace lockstep::test
