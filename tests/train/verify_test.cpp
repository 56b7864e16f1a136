#include "lockstep/train/verify.h"

#include <functional>
#include <map>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include "lockstep/comm/forwarding_communicator.h"

#include "strategies/trained_replica.h"

namespace lockstep {
namespace {

using train::Check;

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

/// Spoils the second step's reduction of every training of lenet5 in one bucket.
class FaultyCommunicator final : public comm::ForwardingCommunicator {
 public:
  FaultyCommunicator(comm::Communicator& real, Fault fault) : ForwardingCommunicator(real), fault_(fault) {}

  comm::WorkPtr all_reduce(const comm::Buffer& buffer, comm::ReduceOp op) override {
    if (op != comm::ReduceOp::kSum) return real_.all_reduce(buffer, op);
    return reduction(buffer, buffer, [&] { return real_.all_reduce(buffer, op); });
  }
  comm::WorkPtr reduce_scatter(const comm::Buffer& input, const comm::Buffer& output,
                               comm::ReduceOp op) override {
    fetches_ = true;
    return reduction(input, output, [&] { return real_.reduce_scatter(input, output, op); });
  }
  comm::WorkPtr reduce(const comm::Buffer& buffer, comm::ReduceOp op, int root) override {
    fetches_ = true;
    return reduction(buffer, buffer, [&] { return real_.reduce(buffer, op, root); });
  }
  // After the reduction, where it leaves every rank with a part or nothing, comes what all of them get.
  comm::WorkPtr all_gather(const comm::Buffer& input, const comm::Buffer& output) override {
    return fetch(output, real_.all_gather(input, output));
  }
  comm::WorkPtr broadcast(const comm::Buffer& buffer, int root) override {
    return fetch(buffer, real_.broadcast(buffer, root));
  }

 private:
  /// All of lenet5, or its largest tensor where each goes alone.
  static bool large(const comm::Buffer& buffer) { return buffer.count > 20'000; }
  bool last_rank() const { return rank() == size() - 1; }
  /// lenet5 is trained for 3 steps each time.
  bool second_step() { return reductions_++ % 3 == 1; }

  comm::WorkPtr reduction(const comm::Buffer& input, const comm::Buffer& output,
                          const std::function<comm::WorkPtr()>& real) {
    if (!large(input)) return real();
    if (fault_ == Fault::kDivisor) {
      const double wrong = size() / (size() + 1.0);
      return std::make_unique<FaultyWork>(real(), [=] { Elements(output).scale(wrong); });
    }
    if (fault_ == Fault::kNone || !second_step()) return real();
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
  int reductions_ = 0;
  /// The reduction is followed by a fetch.
  bool fetches_ = false;
  bool spoil_next_fetch_ = false;
};

struct Variant {
  std::string name;
  std::string strategy;
  std::vector<strategies::GivenOption> options;
  /// Whether a reduction that is left out leaves every rank with something else.
  bool each_has_all_gradients = true;
};

struct Case {
  Variant variant;
  int ranks;
};

void PrintTo(const Case& value, std::ostream* out) {
  *out << value.variant.name << " at " << value.ranks;
}

class VerifyTest : public testing::TestWithParam<Case> {
 protected:
  static std::map<std::string, Check> verify(const std::string& model, Fault fault) {
    train::SweepOptions sweep;
    sweep.models = {model};
    sweep.batches = {4};
    sweep.ranks = {GetParam().ranks};
    sweep.strategies = {GetParam().variant.strategy};
    sweep.strategy_options = GetParam().variant.options;
    sweep.controls = false;
    sweep.learning_rate = 0.05;
    const train::RowPlan row = train::plan_rows(sweep).front();
    std::map<std::string, Check> by_name;
    test::with_thread_ranks(GetParam().ranks, [&](comm::Communicator& real) {
      FaultyCommunicator group(real, fault);
      launch::Progress progress;
      const std::vector<Check> checks = train::verify_row(row, 3, &group, progress);
      for (const Check& check : checks) by_name[check.name] = check;
    });
    return by_name;
  }

  static bool wrong(const Check& check) { return check.outcome == Check::Outcome::kWrong; }
};

TEST_P(VerifyTest, what_is_right_is_said_to_be) {
  for (const std::string model : {"lenet5", "mlp"}) {
    for (const auto& [name, check] : verify(model, Fault::kNone)) {
      EXPECT_EQ(check.outcome, Check::Outcome::kRight) << model << ", " << name << ": " << check.detail;
    }
  }
}

TEST_P(VerifyTest, a_last_place_on_one_rank_is_seen_by_the_equality_of_replicas) {
  const auto found = verify("lenet5", Fault::kLastPlace);
  EXPECT_TRUE(wrong(found.at("replicas equal"))) << found.at("replicas equal").detail;
  EXPECT_THAT(found.at("replicas equal").detail,
              testing::HasSubstr("rank " + std::to_string(GetParam().ranks - 1)));
}

TEST_P(VerifyTest, one_percent_in_one_element_is_seen_by_the_joint_batch) {
  const auto found = verify("lenet5", Fault::kOnePercent);
  EXPECT_FALSE(wrong(found.at("replicas equal")));
  EXPECT_TRUE(wrong(found.at("joint batch"))) << found.at("joint batch").detail;
}

TEST_P(VerifyTest, a_bucket_that_is_not_sent_is_seen) {
  const auto found = verify("lenet5", Fault::kNotSent);
  EXPECT_EQ(wrong(found.at("replicas equal")), GetParam().variant.each_has_all_gradients);
  EXPECT_TRUE(wrong(found.at("joint batch")));
}

TEST_P(VerifyTest, a_wrong_divisor_is_seen_by_the_joint_batch) {
  const auto found = verify("lenet5", Fault::kDivisor);
  EXPECT_FALSE(wrong(found.at("replicas equal")));
  EXPECT_TRUE(wrong(found.at("joint batch"))) << found.at("joint batch").detail;
}

TEST(VerifyAsyncTest, gradients_applied_as_they_arrive_are_counted) {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    train::SweepOptions sweep;
    sweep.models = {"lenet5"};
    sweep.batches = {4};
    sweep.ranks = {ranks};
    sweep.strategies = {"parameter_server"};
    sweep.strategy_options = {{"--consistency", "async"}};
    sweep.controls = false;
    sweep.learning_rate = 0.05;
    const train::RowPlan row = train::plan_rows(sweep).front();
    std::map<std::string, Check> by_name;
    test::with_thread_ranks(ranks, [&](comm::Communicator& group) {
      launch::Progress progress;
      for (const Check& check : train::verify_row(row, 3, &group, progress)) by_name[check.name] = check;
    });
    for (const char* name : {"replicas equal", "joint batch", "run to run"}) {
      EXPECT_EQ(by_name.at(name).outcome, Check::Outcome::kNotApplicable) << name;
      EXPECT_NE(by_name.at(name).detail, "") << name;
    }
    for (const char* name : {"applied once", "staleness", "loss falls"}) {
      EXPECT_EQ(by_name.at(name).outcome, Check::Outcome::kRight) << name << ": " << by_name.at(name).detail;
    }
  }
}

std::vector<Case> all_cases() {
  const std::vector<Variant> variants{
      {"ddp", "ddp", {}},
      {"ddp_fp16", "ddp", {{"--wire", "fp16"}}},
      {"ddp_bf16", "ddp", {{"--wire", "bf16"}}},
      {"replicated", "replicated", {}},
      {"replicated_bf16", "replicated", {{"--wire", "bf16"}}},
      {"sharded", "sharded", {}, false},
      {"parameter_server", "parameter_server", {{"--parameter-owners", "rank0"}}, false},
      {"horovod", "horovod", {{"--deterministic", "on"}}},
      {"horovod_fp16", "horovod", {{"--deterministic", "on"}, {"--wire", "fp16"}}},
      {"bsp", "bsp", {}},
      {"bsp_fp16", "bsp", {{"--exchange", "nccl16"}}},
  };
  std::vector<Case> cases;
  for (const Variant& variant : variants) {
    for (const int ranks : {2, 3, 4, 7}) cases.push_back({variant, ranks});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(all, VerifyTest, testing::ValuesIn(all_cases()), [](const auto& named) {
  return named.param.variant.name + "_" + std::to_string(named.param.ranks);
});

}  // namespace
}  // namespace lockstep
