#include <cstring>
#include <optional>
#include <utility>

#include "lockstep/comm/argument_checks.h"
#include "lockstep/comm/staging/copy_engine.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm {
namespace {

class CompletedWork final : public Work {
 public:
  bool test() override { return true; }
  void wait(Duration) override {}
  void wait() override {}
  void on_complete(std::function<void()> done) override { done(); }
};

/// Complete when the GPU reaches a mark. Waits without a time-out: that depends on no other rank.
class MarkedWork final : public Work {
 public:
  /// `stream`: the stream that holds the mark, if it is the caller's; work queued there later needs no wait.
  MarkedWork(std::shared_ptr<CopyEngine> engine, CopyEngine::MarkPtr mark, std::optional<void*> stream = {})
      : engine_(std::move(engine)), mark_(std::move(mark)), stream_(stream) {}

  bool test() override { return engine_->reached(*mark_); }
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

class SoloCommunicator final : public Communicator {
 public:
  SoloCommunicator(std::string backend, Duration timeout, std::shared_ptr<CopyEngine> engine)
      : backend_(std::move(backend)),
        timeout_(timeout),
        engine_(std::move(engine)),
        checks_(0, 1, capabilities(), "rank 0 of 1 over " + backend_) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string backend() const override { return backend_; }
  Capabilities capabilities() const override { return {.cuda_buffers = engine_ != nullptr}; }
  Duration timeout() const override { return timeout_; }

  /// With one rank every collective copies its input to its output.
  WorkPtr issue(const Collective& collective) override {
    checks_.check(collective);
    const Buffer& input = collective.input;
    const Buffer& output = collective.output;
    if (input.device != DeviceKind::kCpu) return copy_on_device(input, output);
    if (input.bytes() > 0 && input.data != output.data) std::memcpy(output.data, input.data, input.bytes());
    return std::make_unique<CompletedWork>();
  }

  /// Always refused: there is no peer.
  WorkPtr post(const Message& message) override {
    checks_.check(message);
    return nullptr;
  }

  std::unique_ptr<Communicator> split(std::span<const int> ranks) override {
    checks_.check_split(ranks);
    return make_solo_communicator(backend_, timeout_, engine_);
  }

 private:
  WorkPtr copy_on_device(const Buffer& input, const Buffer& output) const {
    constexpr auto kLane = CopyEngine::Lane::kOut;
    if (input.data == output.data && input.stream == output.stream) {
      return std::make_unique<MarkedWork>(engine_, engine_->mark_stream(output.stream), output.stream);
    }
    // The output's stream too: it may still use the old contents.
    engine_->hold_lane(kLane, *engine_->mark_stream(input.stream));
    engine_->hold_lane(kLane, *engine_->mark_stream(output.stream));
    if (input.data != output.data) {
      engine_->copy(kLane, output.data, output.bytes(), input.data, input.bytes(), input.bytes(), 1);
    }
    return std::make_unique<MarkedWork>(engine_, engine_->mark_lane(kLane));
  }

  const std::string backend_;
  const Duration timeout_;
  const std::shared_ptr<CopyEngine> engine_;
  const ArgumentChecks checks_;
};

}  // namespace

std::unique_ptr<Communicator> make_solo_communicator(std::string backend, Duration timeout,
                                                     std::shared_ptr<CopyEngine> engine) {
  return std::make_unique<SoloCommunicator>(std::move(backend), timeout, std::move(engine));
}

}  // namespace lockstep::comm
