#include "lockstep/comm/communicator.h"

#include <numeric>
#include <utility>
#include <vector>

#include "lockstep/comm/operation.h"

namespace lockstep::comm {
namespace {

class FollowedWork final : public Work {
 public:
  FollowedWork(WorkPtr real, std::function<void()> last)
      : real_(std::move(real)), end_(std::make_shared<Operation>(OperationInfo())) {
    // Holds `end`, not this object: the Work may be dropped before the operation is complete.
    real_->on_complete([end = end_, last = std::move(last)] {
      last();
      end->complete();
    });
  }

  // Complete only after `last` has run: a caller may free what it uses.
  bool test() override { return real_->test() && end_->has_outcome(); }
  void wait(Duration timeout) override {
    real_->wait(timeout);
    wait_for_end();
  }
  void wait() override {
    real_->wait();
    wait_for_end();
  }
  void wait_in_stream(void* stream) override { real_->wait_in_stream(stream); }
  int source() const override { return real_->source(); }
  void on_complete(std::function<void()> done) override { end_->on_complete(std::move(done)); }

 private:
  // Without a limit: the operation is complete, and `last` does not depend on other ranks.
  void wait_for_end() { end_->wait_until(deadline_after(Duration::max())); }

  WorkPtr real_;
  std::shared_ptr<Operation> end_;
};

}  // namespace

WorkPtr followed_by(WorkPtr real, std::function<void()> last) {
  return std::make_unique<FollowedWork>(std::move(real), std::move(last));
}

std::unique_ptr<Communicator> Communicator::split_first(int count) {
  std::vector<int> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return split(ranks);
}

std::unique_ptr<Communicator> Communicator::duplicate() {
  return split_first(size());
}

}  // namespace lockstep::comm
