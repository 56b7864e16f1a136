#pragma once

#include <memory>
#include <span>
#include <string>

#include "lockstep/comm/communicator.h"

namespace lockstep::comm {

/// Hands everything on to another communicator, owned by the caller and outliving this: what wraps one
/// overrides only what it changes. Parts split off are the real communicator's own.
class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(Communicator& real) : real_(real) {}

  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  std::string backend() const override { return real_.backend(); }
  Capabilities capabilities() const override { return real_.capabilities(); }
  WorkPtr all_reduce(const Buffer& buffer, ReduceOp op) override { return real_.all_reduce(buffer, op); }
  WorkPtr reduce(const Buffer& buffer, ReduceOp op, int root) override {
    return real_.reduce(buffer, op, root);
  }
  WorkPtr broadcast(const Buffer& buffer, int root) override { return real_.broadcast(buffer, root); }
  WorkPtr all_gather(const Buffer& input, const Buffer& output) override {
    return real_.all_gather(input, output);
  }
  WorkPtr reduce_scatter(const Buffer& input, const Buffer& output, ReduceOp op) override {
    return real_.reduce_scatter(input, output, op);
  }
  WorkPtr all_to_all(const Buffer& input, const Buffer& output) override {
    return real_.all_to_all(input, output);
  }
  WorkPtr barrier() override { return real_.barrier(); }
  WorkPtr send(const Buffer& buffer, int peer, int tag) override { return real_.send(buffer, peer, tag); }
  WorkPtr receive(const Buffer& buffer, int peer, int tag) override {
    return real_.receive(buffer, peer, tag);
  }
  WorkPtr receive_any(const Buffer& buffer, int tag) override { return real_.receive_any(buffer, tag); }
  std::unique_ptr<Communicator> split(std::span<const int> ranks) override { return real_.split(ranks); }
  std::unique_ptr<Communicator> duplicate() override { return real_.duplicate(); }
  void register_memory(void* data, size_t bytes) override { real_.register_memory(data, bytes); }
  Duration timeout() const override { return real_.timeout(); }
  double progress_thread_cpu_s() const override { return real_.progress_thread_cpu_s(); }

 protected:
  Communicator& real_;
};

}  // namespace lockstep::comm
