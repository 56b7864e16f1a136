#include "lockstep/train/rows/agreement.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json_codec.h"
#include "lockstep/comm/store.h"
#include "lockstep/launch/threads.h"
#include "lockstep/train/rows/row_trainee.h"

#include "strategies/trained_replica.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

train::RowPlan row_of(const std::string& strategy, int ranks) {
  train::SweepOptions sweep;
  sweep.models = {"mlp"};
  sweep.batches = {2};
  sweep.ranks = {ranks};
  sweep.strategies = {strategy};
  sweep.controls = false;
  return train::plan_rows(sweep).front();
}

/// The message with which each of `ranks` thread ranks was refused; "accepted" if it was not.
std::vector<std::string> refusals(int ranks, const std::function<void(comm::Communicator&)>& body) {
  std::vector<std::string> texts(static_cast<size_t>(ranks));
  test::with_thread_ranks(ranks, [&](comm::Communicator& group) {
    std::string& text = texts[static_cast<size_t>(group.rank())];
    try {
      body(group);
      text = "accepted";
    } catch (const ConfigError& error) {
      text = error.what();
    }
  });
  return texts;
}

class AgreementTest : public testing::TestWithParam<int> {};

TEST_P(AgreementTest, ranks_that_are_alike_go_on) {
  for (const std::string& strategy : strategies::registry().names()) {
    if (strategy == "single") continue;
    EXPECT_THAT(refusals(GetParam(),
                         [&](comm::Communicator& group) {
                           const train::RowPlan row = row_of(strategy, group.size());
                           const train::RowTrainee trainee(row, &group);
                         }),
                Each("accepted"))
        << strategy;
  }
}

TEST_P(AgreementTest, another_seed_on_one_rank_is_refused_on_all_by_number_and_value) {
  const int odd = GetParam() - 1;
  EXPECT_THAT(refusals(GetParam(),
                       [&](comm::Communicator& group) {
                         train::RowPlan row = row_of("ddp", group.size());
                         if (group.rank() == odd) row.seed = 7;
                         const train::RowTrainee trainee(row, &group);
                       }),
              Each(AllOf(HasSubstr("rank " + std::to_string(odd) + " has seed 7, rank 0 has seed 1"),
                         Not(HasSubstr("initial values")))));
}

TEST_P(AgreementTest, another_network_is_refused_although_its_tensors_have_other_shapes) {
  EXPECT_THAT(refusals(GetParam(),
                       [](comm::Communicator& group) {
                         train::RowPlan row = row_of("replicated", group.size());
                         if (group.rank() == 1) row.model = "lenet5";
                         const train::RowTrainee trainee(row, &group);
                       }),
              Each(HasSubstr("rank 1 has network lenet5, rank 0 has network mlp")));
}

TEST_P(AgreementTest, one_bit_of_one_initial_value_is_found_and_its_tensor_named) {
  EXPECT_THAT(
      refusals(GetParam(),
               [](comm::Communicator& group) {
                 const train::RowPlan row = row_of("ddp", group.size());
                 const auto model = models::registry().get("mlp").create({});
                 if (group.rank() == group.size() - 1) {
                   const at::NoGradGuard no_grad;
                   const at::Tensor tensor = model->parameters().trainable()[2].value;
                   auto* words = static_cast<uint32_t*>(tensor.mutable_data_ptr());
                   words[tensor.numel() - 1] ^= 1U;
                 }
                 train::agree_on_replica(row, model->parameters(), group);
               }),
      Each(AllOf(HasSubstr("rank " + std::to_string(GetParam() - 1) + " has initial values of "),
                 HasSubstr(models::registry().get("mlp").create({})->parameters().trainable()[2].name),
                 Not(HasSubstr("more")))));
}

INSTANTIATE_TEST_SUITE_P(ranks, AgreementTest, testing::Values(2, 3, 4, 7));

TEST(FingerprintTest, ranks_with_the_same_other_value_are_told_together) {
  const train::Fingerprint one{{"seed", "1"}, {"input", "device"}};
  const train::Fingerprint seven{{"seed", "7"}, {"input", "device"}};
  const train::Fingerprint nine{{"seed", "9"}, {"input", "device"}};
  EXPECT_EQ(train::difference_text({one, seven, one, seven, nine}),
            "ranks 1, 3 have seed 7, rank 4 has seed 9, rank 0 has seed 1");
  EXPECT_EQ(train::difference_text({one, one}), "");
  EXPECT_EQ(train::difference_text({one, {}}),
            "rank 1 has seed none, rank 0 has seed 1; rank 1 has input none, rank 0 has input device");
}

TEST(FingerprintTest, facts_survive_the_way_to_another_rank) {
  const train::Fingerprint facts = train::fingerprint_of(row_of("ddp", 2));
  EXPECT_EQ(from_bytes<train::Fingerprint>(to_bytes(facts)), facts);
  EXPECT_THROW(from_bytes<train::Fingerprint>("cut off"), Error);
}

/// Everything that a user can vary makes another plan, of one row and of all.
TEST(FingerprintTest, every_field_of_a_row_is_a_fact) {
  using Change = void (*)(train::RowPlan&);
  const std::vector<Change> changes{
      [](train::RowPlan& row) { row.model = "lenet5"; },
      [](train::RowPlan& row) { row.batch_per_rank = 3; },
      [](train::RowPlan& row) { row.ranks = 3; },
      [](train::RowPlan& row) { row.strategy = "replicated"; },
      [](train::RowPlan& row) { row.precision = "bf16"; },
      [](train::RowPlan& row) { row.kernels = row.kernels == "aten" ? "fused" : "aten"; },
      [](train::RowPlan& row) { row.bucket_mb = 1; },
      [](train::RowPlan& row) { row.parsed_options.overlap = false; },
      [](train::RowPlan& row) { row.memory_format = "contiguous"; },
      [](train::RowPlan& row) { row.input = "host"; },
      [](train::RowPlan& row) { row.image_size = 1; },
      [](train::RowPlan& row) { row.global_batch = 4; },
      [](train::RowPlan& row) { row.accumulate = 2; },
      [](train::RowPlan& row) { row.pacing.steps = 1; },
      [](train::RowPlan& row) { row.pacing.warmup_steps = 0; },
      [](train::RowPlan& row) { row.pacing.precision_target = 0.5; },
      [](train::RowPlan& row) { row.pacing.max_time_s = 1; },
      [](train::RowPlan& row) { row.verify_every = 1; },
      [](train::RowPlan& row) { row.tune_budget_s = 1; },
      [](train::RowPlan& row) { row.seed = 2; },
      [](train::RowPlan& row) { row.learning_rate = 0.5; },
      [](train::RowPlan& row) { row.momentum = 0; },
      [](train::RowPlan& row) { row.nesterov = true; },
      [](train::RowPlan& row) { row.grad_clip = 1; },
      [](train::RowPlan& row) { row.weight_decay = 0; },
  };
  const train::RowPlan plain = row_of("ddp", 2);
  for (size_t i = 0; i < changes.size(); ++i) {
    train::RowPlan changed = plain;
    changes[i](changed);
    EXPECT_NE(train::difference_text({train::fingerprint_of(plain), train::fingerprint_of(changed)}), "")
        << i;
    const std::vector<train::RowPlan> plans{plain, changed};
    EXPECT_NE(train::difference_text({train::fingerprint_of({plain}), train::fingerprint_of(plans)}), "")
        << i;
    // The same rows in another order would meet in the wrong collectives.
    EXPECT_THAT(
        train::difference_text({train::fingerprint_of({changed, plain}), train::fingerprint_of(plans)}),
        Not(testing::IsEmpty()))
        << i;
  }
}

/// A store in rank 0's process, and ranks that are slow to read from it.
class StoreOfRank0 : public comm::Store {
 public:
  void close() { closed_ = true; }

  void set(const std::string& key, const std::string& value) override { values_.set(key, value); }

  std::string get(const std::string& key, std::chrono::duration<double> timeout) override {
    const std::string value = values_.get(key, timeout);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (closed_) throw PeerLostError("the store is gone", "");
    return value;
  }

  int64_t add(const std::string& key, int64_t amount) override { return values_.add(key, amount); }

 private:
  comm::HashStore values_;
  std::atomic<bool> closed_{false};
};

TEST(AgreementTest, plans_are_compared_through_the_store_which_lives_until_all_have_heard) {
  StoreOfRank0 store;
  std::vector<std::string> texts(3);
  launch::run_threads(3, [&](int rank) {
    try {
      train::agree_on_plan({{"seed", rank == 2 ? "7" : "1"}}, rank, 3, store);
    } catch (const Error& error) {
      texts[static_cast<size_t>(rank)] = error.what();
    }
    if (rank == 0) store.close();
  });
  EXPECT_THAT(texts, Each(HasSubstr("rank 2 has seed 7, rank 0 has seed 1")));
}

TEST(AgreementTest, rank_0_decides_from_all_reports_and_all_ranks_get_its_refusal) {
  for (const bool refused : {false, true}) {
    comm::HashStore store;
    std::vector<std::string> reports;
    std::vector<std::string> texts(3, "accepted");
    launch::run_threads(3, [&](int rank) {
      const auto check = [&](const std::vector<std::string>& by_rank) {
        reports = by_rank;
        return refused ? Trouble{"two are alike", "Be different."} : Trouble();
      };
      try {
        train::agree("guests", "name of " + std::to_string(rank), rank, 3, store, check);
      } catch (const ConfigError& error) {
        texts[static_cast<size_t>(rank)] = std::string(error.what()) + ". " + error.advice();
      }
    });
    EXPECT_THAT(reports, testing::ElementsAre("name of 0", "name of 1", "name of 2"));
    EXPECT_THAT(texts, Each(refused ? "two are alike. Be different." : "accepted"));
  }
}

}  // namespace
}  // namespace lockstep
