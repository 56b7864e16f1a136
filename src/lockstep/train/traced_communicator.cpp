#include "lockstep/train/traced_communicator.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "lockstep/base/clock.h"
#include "lockstep/comm/followed_work.h"

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
  // Who waits finds the stamp.
  return comm::followed_by(issue(), [stamps = stamps_, index] { stamps->ended(index, now_s()); });
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
