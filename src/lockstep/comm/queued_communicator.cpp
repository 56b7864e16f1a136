#include "lockstep/comm/queued_communicator.h"

#include <mutex>
#include <vector>

#include "lockstep/comm/argument_checks.h"
#include "lockstep/comm/communicator_state.h"

namespace lockstep::comm {
namespace {

class QueuedCommunicator final : public Communicator {
 public:
  QueuedCommunicator(std::shared_ptr<Transport> transport, Duration timeout)
      : state_(CommunicatorState::create(std::move(transport), timeout)),
        checks_(rank(), size(), capabilities(), state_->where()) {}

  ~QueuedCommunicator() override { state_->shut_down(); }

  int rank() const override { return state_->transport().rank(); }
  int size() const override { return state_->transport().size(); }
  std::string backend() const override { return state_->transport().backend(); }
  Capabilities capabilities() const override { return state_->transport().capabilities(); }
  Duration timeout() const override { return state_->timeout(); }

  double progress_thread_cpu_s() const override {
    double sum_s = state_->cpu_s();
    const std::lock_guard lock(mutex_);
    for (const auto& duplicate : duplicates_) {
      if (const auto state = duplicate.lock()) sum_s += state->queue_cpu_s();
    }
    return sum_s;
  }

  WorkPtr all_reduce(const Buffer& buffer, ReduceOp op) override {
    checks_.buffer("all_reduce", buffer);
    issuing(buffer, buffer);
    return state_->submit({"all_reduce", buffer.bytes()},
                          [=](Transport& to, Deadline by) { to.all_reduce(buffer, op, by); });
  }

  WorkPtr reduce(const Buffer& buffer, ReduceOp op, int root) override {
    checks_.buffer("reduce", buffer);
    checks_.root("reduce", root);
    issuing(buffer, buffer);
    return state_->submit({"reduce", buffer.bytes()},
                          [=](Transport& to, Deadline by) { to.reduce(buffer, op, root, by); });
  }

  WorkPtr broadcast(const Buffer& buffer, int root) override {
    checks_.buffer("broadcast", buffer);
    checks_.root("broadcast", root);
    issuing(buffer, buffer);
    return state_->submit({"broadcast", buffer.bytes()},
                          [=](Transport& to, Deadline by) { to.broadcast(buffer, root, by); });
  }

  WorkPtr all_gather(const Buffer& input, const Buffer& output) override {
    checks_.all_gather(input, output);
    issuing(input, output);
    return state_->submit({"all_gather", output.bytes()},
                          [=](Transport& to, Deadline by) { to.all_gather(input, output, by); });
  }

  WorkPtr reduce_scatter(const Buffer& input, const Buffer& output, ReduceOp op) override {
    checks_.reduce_scatter(input, output);
    issuing(input, output);
    return state_->submit({"reduce_scatter", input.bytes()},
                          [=](Transport& to, Deadline by) { to.reduce_scatter(input, output, op, by); });
  }

  WorkPtr all_to_all(const Buffer& input, const Buffer& output) override {
    checks_.all_to_all(input, output);
    issuing(input, output);
    return state_->submit({"all_to_all", input.bytes()},
                          [=](Transport& to, Deadline by) { to.all_to_all(input, output, by); });
  }

  WorkPtr barrier() override {
    return state_->submit({"barrier"}, [](Transport& to, Deadline by) { to.barrier(by); });
  }

  WorkPtr send(const Buffer& buffer, int peer, int tag) override {
    checks_.message("send", buffer, peer, tag);
    return start([&](Transport& to, Deadline by) { return to.send(buffer, peer, tag, by); });
  }

  WorkPtr receive(const Buffer& buffer, int peer, int tag) override {
    checks_.message("receive", buffer, peer, tag);
    return start([&](Transport& to, Deadline by) { return to.receive(buffer, peer, tag, by); });
  }

  WorkPtr receive_any(const Buffer& buffer, int tag) override {
    checks_.receive_any();
    checks_.buffer("receive_any", buffer);
    checks_.tag("receive_any", tag);
    return start([&](Transport& to, Deadline by) { return to.receive_any(buffer, tag, by); });
  }

  std::unique_ptr<Communicator> split(std::span<const int> ranks) override {
    checks_.split(ranks);
    auto part = std::make_shared<std::shared_ptr<Transport>>();
    const std::vector<int> members(ranks.begin(), ranks.end());
    state_->submit({"split"}, [=](Transport& to, Deadline by) { *part = to.split(members, by); })->wait();
    if (members == std::vector{rank()}) {
      return make_solo_communicator(backend(), capabilities(), timeout(), state_->transport().copy_engine());
    }
    if (!*part) return nullptr;
    return make_communicator(std::move(*part), timeout());
  }

  std::unique_ptr<Communicator> duplicate() override {
    std::unique_ptr<Communicator> other = Communicator::duplicate();
    if (const auto* queued = dynamic_cast<const QueuedCommunicator*>(other.get())) {
      const std::lock_guard lock(mutex_);
      std::erase_if(duplicates_, [](const auto& duplicate) { return duplicate.expired(); });
      duplicates_.push_back(queued->state_);
    }
    return other;
  }

 private:
  void issuing(const Buffer& input, const Buffer& output) {
    state_->check_usable();
    state_->transport().issuing(input, output);
  }

  template <typename Start>
  WorkPtr start(Start start_message) {
    state_->check_usable();
    try {
      return state_->adopt(start_message(state_->transport(), deadline_after(state_->timeout())));
    } catch (...) {
      state_->break_with(Failure::from_current_exception());
      throw;
    }
  }

  const std::shared_ptr<CommunicatorState> state_;
  const ArgumentChecks checks_;
  mutable std::mutex mutex_;
  /// Not kept alive: their connections go when they do.
  std::vector<std::weak_ptr<CommunicatorState>> duplicates_;
};

}  // namespace

std::unique_ptr<Communicator> make_communicator(std::shared_ptr<Transport> transport, Duration timeout) {
  return std::make_unique<QueuedCommunicator>(std::move(transport), timeout);
}

}  // namespace lockstep::comm
