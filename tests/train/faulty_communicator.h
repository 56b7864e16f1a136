#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/comm/forwarding_communicator.h"

namespace lockstep::test {

enum class Fault {
  kNone,
  /// One unit in the last place of one element after the reduction, on one rank.
  kLastPlace,
  /// One element of one rank's gradient off by 1 % of the norm of what is sent, before it.
  kOnePercent,
  /// A bucket keeps each rank's own gradient.
  kNotSent,
  /// The mean is taken over one rank more than there are.
  kDivisor,
};

/// Does to a buffer what the fault says once the reduction is done.
class FaultyWork final : public comm::Work {
 public:
  FaultyWork(comm::WorkPtr real, std::function<void()> spoil)
      : real_(std::move(real)), spoil_(std::move(spoil)) {}

  bool test() override {
    const bool done = real_->test();
    if (done) spoil();
    return done;
  }
  void wait(comm::Duration timeout) override {
    real_->wait(timeout);
    spoil();
  }
  void wait() override {
    real_->wait();
    spoil();
  }
  void on_complete(std::function<void()> done) override {
    real_->on_complete([this, done] {
      spoil();
      done();
    });
  }

 private:
  void spoil() { std::call_once(once_, spoil_); }

  comm::WorkPtr real_;
  std::function<void()> spoil_;
  std::once_flag once_;
};

/// Spoils reductions of gradients: by default the second of every three, which is that of the second step
/// where a network of one bucket is trained for three steps each time.
class FaultyCommunicator final : public comm::ForwardingCommunicator {
 public:
  FaultyCommunicator(
      comm::Communicator& real, Fault fault,
      std::function<bool(int reduction)> hits = [](int reduction) { return reduction % 3 == 1; })
      : ForwardingCommunicator(real), fault_(fault), hits_(std::move(hits)) {}

  comm::WorkPtr all_reduce(const comm::Buffer& buffer, comm::ReduceOp op) override {
    const bool gradients = op == comm::ReduceOp::kSum && buffer.count > 1000;
    if (fault_ == Fault::kNone || !gradients) return real_.all_reduce(buffer, op);
    auto* values = static_cast<float*>(buffer.data);
    const size_t count = buffer.count;
    const int ranks = size();
    if (fault_ == Fault::kDivisor) {
      return std::make_unique<FaultyWork>(real_.all_reduce(buffer, op), [values, count, ranks] {
        for (size_t i = 0; i < count; ++i)
          values[i] *= static_cast<float>(ranks) / static_cast<float>(ranks + 1);
      });
    }
    if (!hits_(reductions_++)) return real_.all_reduce(buffer, op);
    switch (fault_) {
      case Fault::kOnePercent:
        if (rank() == ranks - 1) {
          double squares = 0;
          for (size_t i = 0; i < count; ++i) squares += double{values[i]} * values[i];
          values[count / 2] += static_cast<float>(0.01 * std::sqrt(squares));
        }
        return real_.all_reduce(buffer, op);
      case Fault::kLastPlace:
        return std::make_unique<FaultyWork>(real_.all_reduce(buffer, op), [this, values, ranks] {
          if (rank() == ranks - 1) values[7] = std::nextafter(values[7], 1.0F);
        });
      case Fault::kNotSent:
        own_.assign(values, values + count);
        return std::make_unique<FaultyWork>(real_.all_reduce(buffer, op), [this, values, count] {
          std::memcpy(values, own_.data(), count * sizeof(float));
        });
      default:
        return real_.all_reduce(buffer, op);
    }
  }

 private:
  Fault fault_;
  std::function<bool(int reduction)> hits_;
  int reductions_ = 0;
  std::vector<float> own_;
};

}  // namespace lockstep::test
