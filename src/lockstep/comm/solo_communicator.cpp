#include <cstring>
#include <optional>
#include <utility>

#include "lockstep/comm/argument_checks.h"
#include "lockstep/comm/queued_communicator.h"
#include "lockstep/comm/staging/copy_engine.h"

namespace lockstep::comm {
namespace {

class CompletedWork final : public Work {
 public:
  bool test() override { return true; }
  void wait(Duration) override {}
  void wait() override {}
  void on_complete(std::function<void()> done) override { done(); }
};

/// On a GPU: complete when the GPU has come so far.
class MarkedWork final : public Work {
 public:
  /// `stream`: whose own order is enough, because the mark is in it.
  MarkedWork(std::shared_ptr<CopyEngine> engine, CopyEngine::MarkPtr mark, std::optional<void*> stream = {})
      : engine_(std::move(engine)), mark_(std::move(mark)), stream_(stream) {}

  bool test() override { return engine_->reached(*mark_); }
  // The GPU comes so far without anybody's help.
  void wait(Duration) override { wait(); }
  void wait() override { engine_->wait(*mark_); }
  void wait_in_stream(void* stream) override {
    if (stream_ != stream) wait();
  }
  void on_complete(std::function<void()> done) override {
    wait();
    done();
  }

 private:
  std::shared_ptr<CopyEngine> engine_;
  CopyEngine::MarkPtr mark_;
  std::optional<void*> stream_;
};

Capabilities with_cuda_buffers(Capabilities capabilities, bool has_engine) {
  capabilities.cuda_buffers = has_engine;
  return capabilities;
}

class SoloCommunicator final : public Communicator {
 public:
  SoloCommunicator(std::string backend, Capabilities capabilities, Duration timeout,
                   std::shared_ptr<CopyEngine> engine)
      : backend_(std::move(backend)),
        capabilities_(with_cuda_buffers(capabilities, engine != nullptr)),
        timeout_(timeout),
        engine_(std::move(engine)),
        checks_(0, 1, capabilities_, "rank 0 of 1 over " + backend_) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string backend() const override { return backend_; }
  Capabilities capabilities() const override { return capabilities_; }
  Duration timeout() const override { return timeout_; }

  WorkPtr all_reduce(const Buffer& buffer, ReduceOp) override {
    checks_.buffer("all_reduce", buffer);
    return in_place(buffer);
  }

  WorkPtr reduce(const Buffer& buffer, ReduceOp, int root) override {
    checks_.buffer("reduce", buffer);
    checks_.root("reduce", root);
    return in_place(buffer);
  }

  WorkPtr broadcast(const Buffer& buffer, int root) override {
    checks_.buffer("broadcast", buffer);
    checks_.root("broadcast", root);
    return in_place(buffer);
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
    return make_solo_communicator(backend_, capabilities_, timeout_, engine_);
  }

 private:
  static WorkPtr done() { return std::make_unique<CompletedWork>(); }

  WorkPtr in_place(const Buffer& buffer) const {
    if (buffer.device == DeviceKind::kCpu) return done();
    return std::make_unique<MarkedWork>(engine_, engine_->mark_stream(buffer.stream), buffer.stream);
  }

  WorkPtr copy(const Buffer& input, const Buffer& output) const {
    if (input.device != DeviceKind::kCpu) return copy_on_device(input, output);
    if (input.bytes() > 0 && input.data != output.data) std::memcpy(output.data, input.data, input.bytes());
    return done();
  }

  WorkPtr copy_on_device(const Buffer& input, const Buffer& output) const {
    constexpr auto kLane = CopyEngine::Lane::kOut;
    if (input.data == output.data && input.stream == output.stream) return in_place(output);
    engine_->hold_lane(kLane, *engine_->mark_stream(input.stream));
    engine_->hold_lane(kLane, *engine_->mark_stream(output.stream));
    if (input.data != output.data) {
      engine_->copy(kLane, output.data, output.bytes(), input.data, input.bytes(), input.bytes(), 1);
    }
    return std::make_unique<MarkedWork>(engine_, engine_->mark_lane(kLane));
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
  const std::shared_ptr<CopyEngine> engine_;
  const ArgumentChecks checks_;
};

}  // namespace

std::unique_ptr<Communicator> make_solo_communicator(std::string backend, Capabilities capabilities,
                                                     Duration timeout, std::shared_ptr<CopyEngine> engine) {
  return std::make_unique<SoloCommunicator>(std::move(backend), capabilities, timeout, std::move(engine));
}

}  // namespace lockstep::comm
