#include "lockstep/train/traced_communicator.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "lockstep/base/clock.h"

namespace lockstep::train {

/// Written by the training thread (issued) and the communicator's (ended).
class TracedCommunicator::Stamps {
 public:
  /// The number of one more lane.
  int add_lane() {
    const std::lock_guard lock(mutex_);
    return lanes_++;
  }

  size_t issued(int64_t bytes, double at_s, int lane) {
    const std::lock_guard lock(mutex_);
    stamps_.push_back({.bytes = bytes, .issued_s = at_s, .lane = lane});
    return taken_ + stamps_.size() - 1;
  }

  /// Does nothing for one that was taken before it ended.
  void ended(size_t index, double at_s) {
    const std::lock_guard lock(mutex_);
    if (index >= taken_) stamps_[index - taken_].ended_s = at_s;
  }

  std::vector<CollectiveStamp> take() {
    const std::lock_guard lock(mutex_);
    taken_ += stamps_.size();
    return std::exchange(stamps_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<CollectiveStamp> stamps_;
  /// How many were taken before the first of these.
  size_t taken_ = 0;
  int lanes_ = 0;
};

namespace {

/// A Work whose one callback is taken by the tracer: the user's is called after it. Who waits for it waits
/// for the callback too, which may come later than the end: only then is the stamp there.
class TracedWork final : public comm::Work {
 public:
  TracedWork(comm::WorkPtr real, std::function<void()> ended)
      : real_(std::move(real)), chain_(std::make_shared<Chain>()) {
    real_->on_complete([chain = chain_, ended = std::move(ended)] {
      ended();
      chain->complete();
    });
  }

  bool test() override { return real_->test() && chain_->completed(); }
  void wait(comm::Duration timeout) override {
    real_->wait(timeout);
    chain_->wait();
  }
  void wait() override {
    real_->wait();
    chain_->wait();
  }
  int source() const override { return real_->source(); }
  void on_complete(std::function<void()> done) override { chain_->then(std::move(done)); }

 private:
  class Chain {
   public:
    void complete() {
      std::function<void()> next;
      {
        const std::lock_guard lock(mutex_);
        completed_ = true;
        next = std::move(next_);
      }
      changed_.notify_all();
      if (next) next();
    }

    bool completed() {
      const std::lock_guard lock(mutex_);
      return completed_;
    }

    void wait() {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return completed_; });
    }

    void then(std::function<void()> next) {
      {
        const std::lock_guard lock(mutex_);
        if (!completed_) {
          next_ = std::move(next);
          return;
        }
      }
      next();
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool completed_ = false;
    std::function<void()> next_;
  };

  comm::WorkPtr real_;
  std::shared_ptr<Chain> chain_;
};

}  // namespace

TracedCommunicator::TracedCommunicator(comm::Communicator& real)
    : ForwardingCommunicator(real), stamps_(std::make_shared<Stamps>()), lane_(stamps_->add_lane()) {}

TracedCommunicator::TracedCommunicator(std::unique_ptr<comm::Communicator> real,
                                       std::shared_ptr<Stamps> stamps)
    : ForwardingCommunicator(*real),
      owned_(std::move(real)),
      stamps_(std::move(stamps)),
      lane_(stamps_->add_lane()) {}

TracedCommunicator::~TracedCommunicator() = default;

std::vector<CollectiveStamp> TracedCommunicator::take_stamps() {
  return stamps_->take();
}

template <typename Issue>
comm::WorkPtr TracedCommunicator::stamp(int64_t bytes, Issue issue) {
  const size_t index = stamps_->issued(bytes, now_s(), lane_);
  return std::make_unique<TracedWork>(issue(), [stamps = stamps_, index] { stamps->ended(index, now_s()); });
}

comm::WorkPtr TracedCommunicator::all_reduce(const comm::Buffer& buffer, comm::ReduceOp op) {
  return stamp(static_cast<int64_t>(buffer.bytes()), [&] { return real_.all_reduce(buffer, op); });
}
comm::WorkPtr TracedCommunicator::reduce(const comm::Buffer& buffer, comm::ReduceOp op, int root) {
  return stamp(static_cast<int64_t>(buffer.bytes()), [&] { return real_.reduce(buffer, op, root); });
}
comm::WorkPtr TracedCommunicator::broadcast(const comm::Buffer& buffer, int root) {
  return stamp(static_cast<int64_t>(buffer.bytes()), [&] { return real_.broadcast(buffer, root); });
}
comm::WorkPtr TracedCommunicator::all_gather(const comm::Buffer& input, const comm::Buffer& output) {
  return stamp(static_cast<int64_t>(output.bytes()), [&] { return real_.all_gather(input, output); });
}
comm::WorkPtr TracedCommunicator::reduce_scatter(const comm::Buffer& input, const comm::Buffer& output,
                                                 comm::ReduceOp op) {
  return stamp(static_cast<int64_t>(input.bytes()), [&] { return real_.reduce_scatter(input, output, op); });
}
comm::WorkPtr TracedCommunicator::all_to_all(const comm::Buffer& input, const comm::Buffer& output) {
  return stamp(static_cast<int64_t>(input.bytes()), [&] { return real_.all_to_all(input, output); });
}
comm::WorkPtr TracedCommunicator::barrier() {
  return stamp(0, [&] { return real_.barrier(); });
}
std::unique_ptr<comm::Communicator> TracedCommunicator::duplicate() {
  return std::unique_ptr<TracedCommunicator>(new TracedCommunicator(real_.duplicate(), stamps_));
}

}  // namespace lockstep::train
