#pragma once

#include <memory>
#include <span>
#include <string>

#include "lockstep/comm/communicator.h"

namespace lockstep::comm {

/// Base of wrappers: forwards everything to another communicator, which the caller owns and keeps alive. A
/// wrapper overrides only what it changes. Communicators split off are the real one's, not wrapped.
class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(Communicator& real) : real_(real) {}

  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  std::string backend() const override { return real_.backend(); }
  Capabilities capabilities() const override { return real_.capabilities(); }
  WorkPtr issue(const Collective& collective) override { return real_.issue(collective); }
  WorkPtr post(const Message& message) override { return real_.post(message); }
  std::unique_ptr<Communicator> split(std::span<const int> ranks) override { return real_.split(ranks); }
  std::unique_ptr<Communicator> duplicate() override { return real_.duplicate(); }
  std::shared_ptr<void> allocate(size_t bytes) override { return real_.allocate(bytes); }
  bool idle() const override { return real_.idle(); }
  Duration timeout() const override { return real_.timeout(); }
  double progress_thread_cpu_s() const override { return real_.progress_thread_cpu_s(); }

 protected:
  Communicator& real_;
};

}  // namespace lockstep::comm
