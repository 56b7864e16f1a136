#include "lockstep/train/step/traced_communicator.h"

#include <deque>
#include <mutex>
#include <utility>

namespace lockstep::train {

/// Written by the training thread (issued) and the communicator's (ended).
class TracedCommunicator::Stamps {
 public:
  /// Adds a lane and returns its number.
  int add_lane() {
    const std::lock_guard lock(mutex_);
    return lanes_++;
  }

  size_t issued(int64_t bytes, Instant at, int lane) {
    const std::lock_guard lock(mutex_);
    stamps_.push_back({.bytes = bytes, .issued = std::move(at), .ended = {}, .lane = lane});
    return taken_ + stamps_.size() - 1;
  }

  /// Ignores a collective whose stamp was taken before it ended.
  void ended(size_t index, Instant at) {
    const std::lock_guard lock(mutex_);
    if (index >= taken_) stamps_[index - taken_].ended = std::move(at);
  }

  size_t count() const {
    const std::lock_guard lock(mutex_);
    return stamps_.size();
  }

  std::vector<CollectiveStamp> take(size_t count, const StepClock& clock) {
    const std::lock_guard lock(mutex_);
    std::vector<CollectiveStamp> taken;
    for (size_t i = 0; i < count; ++i) {
      const Stamp& stamp = stamps_[i];
      taken.push_back({.bytes = stamp.bytes,
                       .issued_s = clock.seconds(stamp.issued),
                       // The step has ended; the stream aside, which only waits, soon does.
                       .ended_s = clock.wait_for(stamp.ended),
                       .lane = stamp.lane});
    }
    stamps_.erase(stamps_.begin(), stamps_.begin() + static_cast<std::ptrdiff_t>(count));
    taken_ += count;
    return taken;
  }

  void forget() {
    const std::lock_guard lock(mutex_);
    taken_ += stamps_.size();
    stamps_.clear();
  }

  /// Null on the CPU.
  std::shared_ptr<replica::Accelerator> accelerator;
  /// A second stream that only waits for collectives: a mark in it stamps the end of one without holding up
  /// the step's stream. Null where a backend works on the host.
  std::shared_ptr<replica::Accelerator> aside;

 private:
  struct Stamp {
    int64_t bytes = 0;
    Instant issued;
    Instant ended;
    int lane = 0;
  };

  mutable std::mutex mutex_;
  std::deque<Stamp> stamps_;
  /// Stamps taken before the first of these.
  size_t taken_ = 0;
  int lanes_ = 0;
};

TracedCommunicator::TracedCommunicator(comm::Communicator& real)
    : ForwardingCommunicator(real), stamps_(std::make_shared<Stamps>()), lane_(stamps_->add_lane()) {}

TracedCommunicator::TracedCommunicator(std::unique_ptr<comm::Communicator> real,
                                       std::shared_ptr<Stamps> stamps)
    : ForwardingCommunicator(*real),
      owned_(std::move(real)),
      stamps_(std::move(stamps)),
      lane_(stamps_->add_lane()) {}

TracedCommunicator::~TracedCommunicator() = default;

void TracedCommunicator::stamp_on(std::shared_ptr<replica::Accelerator> accelerator) {
  if (accelerator && capabilities().gpu_queues)
    stamps_->aside = replica::open_accelerator(accelerator->device().index());
  stamps_->accelerator = std::move(accelerator);
}

size_t TracedCommunicator::issued() const {
  return stamps_->count();
}

std::vector<CollectiveStamp> TracedCommunicator::take_stamps(size_t count, const StepClock& clock) {
  return stamps_->take(count, clock);
}

void TracedCommunicator::forget_stamps() {
  stamps_->forget();
}

comm::WorkPtr TracedCommunicator::issue(const comm::Collective& collective) {
  Instant ready = StepClock(stamps_->accelerator.get()).now();
  // A host time is meaningless in a GPU's stream.
  if (collective.ready_s > 0 && !ready.mark) ready.at_s = collective.ready_s;
  const size_t index = stamps_->issued(static_cast<int64_t>(collective.bytes()), std::move(ready), lane_);
  comm::WorkPtr work = real_.issue(collective);
  if (stamps_->aside) {
    work->wait_in_stream(stamps_->aside->stream());
    stamps_->ended(index, StepClock(stamps_->aside.get()).now());
    return work;
  }
  // Stamped before completion is signaled, so that every waiter sees the stamp.
  return comm::followed_by(std::move(work),
                           [stamps = stamps_, index] { stamps->ended(index, StepClock(nullptr).now()); });
}

std::unique_ptr<comm::Communicator> TracedCommunicator::duplicate() {
  return std::unique_ptr<TracedCommunicator>(new TracedCommunicator(real_.duplicate(), stamps_));
}

}  // namespace lockstep::train
