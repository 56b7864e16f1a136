#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "lockstep/base/clock.h"
#include "lockstep/comm/forwarding_communicator.h"

namespace lockstep::test {

inline void sleep_s(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// Completes a known time later than the operation that it hands on.
class DelayedWork final : public comm::Work {
 public:
  DelayedWork(comm::WorkPtr real, double ends_s) : real_(std::move(real)) {
    done_ = std::async(std::launch::async, [this, ends_s] {
      real_->wait();
      sleep_s(ends_s - now_s());
      std::function<void()> callback;
      {
        const std::lock_guard lock(mutex_);
        complete_ = true;
        callback = std::move(callback_);
      }
      if (callback) callback();
    });
  }

  bool test() override {
    const std::lock_guard lock(mutex_);
    return complete_;
  }
  void wait(comm::Duration timeout) override { done_.wait_for(timeout); }
  void wait() override { done_.wait(); }
  void on_complete(std::function<void()> done) override {
    {
      const std::lock_guard lock(mutex_);
      if (!complete_) {
        callback_ = std::move(done);
        return;
      }
    }
    done();
  }

 private:
  comm::WorkPtr real_;
  std::mutex mutex_;
  bool complete_ = false;
  std::function<void()> callback_;
  std::future<void> done_;
};

/// The cost of a message on a slow link.
struct LinkCost {
  double s_per_message = 0;
  double s_per_byte = 0;
};

/// A link on which gradients and parameters take a known time, one message after the other, those of
/// duplicates too.
class SlowLink final : public comm::ForwardingCommunicator {
 public:
  SlowLink(comm::Communicator& real, const LinkCost& cost)
      : ForwardingCommunicator(real), cost_(cost), free_s_(std::make_shared<double>(0)) {}

  comm::WorkPtr issue(const comm::Collective& collective) override {
    // Agreements among the ranks are bytes and integers, and should not be slow.
    if (collective.bytes() == 0 || collective.output.dtype != comm::DType::kFloat32) {
      return real_.issue(collective);
    }
    *free_s_ = std::max(*free_s_, now_s()) + cost_.s_per_message +
               cost_.s_per_byte * static_cast<double>(collective.bytes());
    return std::make_unique<DelayedWork>(real_.issue(collective), *free_s_);
  }

  std::unique_ptr<comm::Communicator> duplicate() override {
    auto other = real_.duplicate();
    auto link = std::make_unique<SlowLink>(*other, cost_);
    link->owned_ = std::move(other);
    link->free_s_ = free_s_;
    return link;
  }

 private:
  std::unique_ptr<comm::Communicator> owned_;
  LinkCost cost_;
  /// When what was issued so far is through; used by the training thread.
  std::shared_ptr<double> free_s_;
};

}  // namespace lockstep::test
