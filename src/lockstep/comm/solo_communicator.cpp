#include <cstring>

#include "lockstep/comm/argument_checks.h"
#include "lockstep/comm/queued_communicator.h"

namespace lockstep::comm {
namespace {

class CompletedWork final : public Work {
 public:
  bool test() override { return true; }
  void wait(Duration) override {}
  void wait() override {}
  void on_complete(std::function<void()> done) override { done(); }
};

class SoloCommunicator final : public Communicator {
 public:
  SoloCommunicator(std::string backend, Capabilities capabilities, Duration timeout)
      : backend_(std::move(backend)),
        capabilities_(capabilities),
        timeout_(timeout),
        checks_(0, 1, false, "rank 0 of 1 over " + backend_) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string backend() const override { return backend_; }
  Capabilities capabilities() const override { return capabilities_; }
  Duration timeout() const override { return timeout_; }

  WorkPtr all_reduce(const Buffer& buffer, ReduceOp) override {
    checks_.buffer("all_reduce", buffer);
    return done();
  }

  WorkPtr reduce(const Buffer& buffer, ReduceOp, int root) override {
    checks_.buffer("reduce", buffer);
    checks_.root("reduce", root);
    return done();
  }

  WorkPtr broadcast(const Buffer& buffer, int root) override {
    checks_.buffer("broadcast", buffer);
    checks_.root("broadcast", root);
    return done();
  }

  WorkPtr all_gather(const Buffer& input, const Buffer& output) override {
    checks_.all_gather(input, output);
    return copy(input, output);
  }

  WorkPtr reduce_scatter(const Buffer& input, const Buffer& output, ReduceOp) override {
    checks_.reduce_scatter(input, output);
    return copy(input, output);
  }

  WorkPtr all_to_all(const Buffer& input, const Buffer& output) override {
    checks_.all_to_all(input, output);
    return copy(input, output);
  }

  WorkPtr barrier() override { return done(); }

  WorkPtr send(const Buffer& buffer, int peer, int tag) override {
    return no_peer("send", buffer, peer, tag);
  }
  WorkPtr receive(const Buffer& buffer, int peer, int tag) override {
    return no_peer("receive", buffer, peer, tag);
  }
  WorkPtr receive_any(const Buffer& buffer, int tag) override {
    return no_peer("receive_any", buffer, -1, tag);
  }

  std::unique_ptr<Communicator> split(std::span<const int> ranks) override {
    checks_.split(ranks);
    return make_solo_communicator(backend_, capabilities_, timeout_);
  }

 private:
  static WorkPtr done() { return std::make_unique<CompletedWork>(); }

  static WorkPtr copy(const Buffer& input, const Buffer& output) {
    if (input.bytes() > 0 && input.data != output.data) std::memcpy(output.data, input.data, input.bytes());
    return done();
  }

  WorkPtr no_peer(const char* call, const Buffer& buffer, int peer, int tag) const {
    checks_.buffer(call, buffer);
    checks_.tag(call, tag);
    checks_.peer(call, peer);
    return done();
  }

  const std::string backend_;
  const Capabilities capabilities_;
  const Duration timeout_;
  const ArgumentChecks checks_;
};

}  // namespace

std::unique_ptr<Communicator> make_solo_communicator(std::string backend, Capabilities capabilities,
                                                     Duration timeout) {
  return std::make_unique<SoloCommunicator>(std::move(backend), capabilities, timeout);
}

}  // namespace lockstep::comm
