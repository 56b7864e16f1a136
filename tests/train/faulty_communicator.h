#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include "lockstep/comm/forwarding_communicator.h"

namespace lockstep::test {

enum class Fault {
  kNone,
  /// One unit in the last place of one element after the reduction, on one rank.
  kLastPlace,
  /// One element of one rank's gradient off by 1 % of that tensor's norm, before it.
  kOnePercent,
  /// A bucket keeps each rank's own gradient.
  kNotSent,
  /// The mean is taken over one rank more than there are.
  kDivisor,
};

/// Does to a buffer what the fault says once the collective is done.
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

/// A buffer's elements, whatever their type.
class Elements {
 public:
  explicit Elements(const comm::Buffer& buffer) {
    const auto type = buffer.dtype == comm::DType::kFloat32   ? at::kFloat
                      : buffer.dtype == comm::DType::kFloat16 ? at::kHalf
                                                              : at::kBFloat16;
    tensor_ = at::from_blob(buffer.data, {static_cast<int64_t>(buffer.count)}, at::TensorOptions(type));
  }

  void scale(double by) { tensor_.mul_(by); }
  void add(int64_t index, double value) { tensor_[index].add_(value); }
  double norm(int64_t begin, int64_t end) const {
    return tensor_.slice(0, begin, end).to(at::kDouble).norm().item<double>();
  }
  at::Tensor copy() const { return tensor_.clone(); }
  void set(const at::Tensor& values) { tensor_.copy_(values); }

  /// To the next number of the type, towards larger magnitude.
  void next_after(int64_t index) {
    if (tensor_.scalar_type() == at::kFloat) {
      ++static_cast<int32_t*>(tensor_.data_ptr())[index];
    } else {
      ++static_cast<int16_t*>(tensor_.data_ptr())[index];
    }
  }

 private:
  at::Tensor tensor_;
};

/// Spoils reductions of lenet5's gradients in one bucket: those that `hits` says by their number, by default
/// the second of every three, which is that of the second step where it is trained for three steps each time.
class FaultyCommunicator final : public comm::ForwardingCommunicator {
 public:
  FaultyCommunicator(
      comm::Communicator& real, Fault fault,
      std::function<bool(int reduction)> hits = [](int reduction) { return reduction % 3 == 1; })
      : ForwardingCommunicator(real), fault_(fault), hits_(std::move(hits)) {}

  /// Its fetches are those of this one.
  std::unique_ptr<comm::Communicator> duplicate() override {
    return std::make_unique<Duplicate>(real_.duplicate(), *this);
  }

  comm::WorkPtr issue(const comm::Collective& collective) override {
    const auto real = [&] { return real_.issue(collective); };
    switch (collective.kind) {
      case comm::Collective::Kind::kAllReduce:
        if (collective.op != comm::ReduceOp::kSum) return real();
        return reduction(collective.input, collective.output, real);
      case comm::Collective::Kind::kReduceScatter:
      case comm::Collective::Kind::kReduce:
        fetches_ = true;
        return reduction(collective.input, collective.output, real);
      // A reduction that leaves every rank with a part or nothing is followed by one of these.
      case comm::Collective::Kind::kAllGather:
      case comm::Collective::Kind::kBroadcast:
        return fetch(collective.output, real());
      default:
        return real();
    }
  }

 private:
  class Duplicate final : public comm::ForwardingCommunicator {
   public:
    Duplicate(std::unique_ptr<comm::Communicator> real, FaultyCommunicator& faulty)
        : ForwardingCommunicator(*real), owned_(std::move(real)), faulty_(faulty) {}

    comm::WorkPtr issue(const comm::Collective& collective) override {
      comm::WorkPtr work = real_.issue(collective);
      const bool gathers = collective.kind == comm::Collective::Kind::kAllGather;
      return gathers ? faulty_.fetch(collective.output, std::move(work)) : std::move(work);
    }

   private:
    std::unique_ptr<comm::Communicator> owned_;
    FaultyCommunicator& faulty_;
  };

  /// All of lenet5, or its largest tensor where each goes alone.
  static bool large(const comm::Buffer& buffer) { return buffer.count > 20'000; }
  bool last_rank() const { return rank() == size() - 1; }

  comm::WorkPtr reduction(const comm::Buffer& input, const comm::Buffer& output,
                          const std::function<comm::WorkPtr()>& real) {
    if (!large(input)) return real();
    if (fault_ == Fault::kDivisor) {
      const double wrong = size() / (size() + 1.0);
      return std::make_unique<FaultyWork>(real(), [=] { Elements(output).scale(wrong); });
    }
    if (fault_ == Fault::kNone || !hits_(reductions_++)) return real();
    if (fault_ == Fault::kOnePercent) {
      if (last_rank()) {
        // The middle lies in the second linear layer's weights, and so do 15,000 elements on either side:
        // what is added is at most 1 % of that tensor's norm.
        const auto middle = static_cast<int64_t>(input.count / 2);
        Elements gradients(input);
        gradients.add(middle, 0.01 * gradients.norm(middle - 15'000, middle + 15'000));
      }
      return real();
    }
    if (fault_ == Fault::kNotSent) {
      // Every rank goes on with its own, or with the part of it that it was to get reduced.
      const at::Tensor own = Elements(input).copy();
      const auto part = static_cast<int64_t>(output.count);
      const int64_t begin = output.count == input.count ? 0 : rank() * part;
      return std::make_unique<FaultyWork>(real(),
                                          [=] { Elements(output).set(own.slice(0, begin, begin + part)); });
    }
    spoil_next_fetch_ = true;
    if (fetches_ || !last_rank()) return real();
    return std::make_unique<FaultyWork>(real(), [=] { Elements(output).next_after(7); });
  }

  comm::WorkPtr fetch(const comm::Buffer& buffer, comm::WorkPtr real) {
    if (fault_ != Fault::kLastPlace || !spoil_next_fetch_ || !large(buffer)) return real;
    spoil_next_fetch_ = false;
    if (!last_rank()) return real;
    return std::make_unique<FaultyWork>(std::move(real), [=] { Elements(buffer).next_after(7); });
  }

  Fault fault_;
  std::function<bool(int reduction)> hits_;
  int reductions_ = 0;
  /// The reduction is followed by a fetch.
  bool fetches_ = false;
  bool spoil_next_fetch_ = false;
};

}  // namespace lockstep::test
