#include "lockstep/train/verify.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

/// Spoils the second step's reduction of every training.
class FaultyCommunicator final : public comm::ForwardingCommunicator {
 public:
  FaultyCommunicator(comm::Communicator& real, Fault fault) : ForwardingCommunicator(real), fault_(fault) {}

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
    // lenet5 has one bucket, and is trained for 3 steps each time.
    if (reductions_++ % 3 != 1) return real_.all_reduce(buffer, op);
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
  int reductions_ = 0;
  std::vector<float> own_;
};

struct Case {
  const char* strategy;
  int ranks;
};

void PrintTo(const Case& value, std::ostream* out) {
  *out << value.strategy << " at " << value.ranks;
}

class VerifyTest : public testing::TestWithParam<Case> {
 protected:
  static std::map<std::string, Check> verify(const std::string& model, Fault fault) {
    train::SweepOptions sweep;
    sweep.models = {model};
    sweep.batches = {4};
    sweep.ranks = {GetParam().ranks};
    sweep.strategies = {GetParam().strategy};
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
  EXPECT_TRUE(wrong(found.at("replicas equal")));
  EXPECT_TRUE(wrong(found.at("joint batch")));
}

TEST_P(VerifyTest, a_wrong_divisor_is_seen_by_the_joint_batch) {
  const auto found = verify("lenet5", Fault::kDivisor);
  EXPECT_FALSE(wrong(found.at("replicas equal")));
  EXPECT_TRUE(wrong(found.at("joint batch"))) << found.at("joint batch").detail;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const char* strategy : {"ddp", "replicated"}) {
    for (const int ranks : {2, 3, 4, 7}) cases.push_back({strategy, ranks});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(all, VerifyTest, testing::ValuesIn(all_cases()), [](const auto& named) {
  return std::string(named.param.strategy) + "_" + std::to_string(named.param.ranks);
});

}  // namespace
}  // namespace lockstep
