// Every check of `verify` against programs that are wrong on purpose.

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include "lockstep/comm/forwarding_communicator.h"
#include "lockstep/strategies/strategy.h"
#include "lockstep/train/verify/verify.h"

#include "strategies/trained_replica.h"

namespace lockstep {
namespace {

using strategies::Strategy;
using strategies::StrategyContext;
using train::Check;

/// The rank, and the parameters as they are now and as they were when the step began.
struct AfterStep {
  int rank;
  int step;
  std::vector<at::Tensor> now, before;
};

constexpr int kSteps = 3;
/// A step that no loss follows, which would be refused where it is not finite.
constexpr int kLast = kSteps - 1;

/// A strategy with a fault.
struct Fault {
  /// Changes what the real strategy is made with.
  std::function<void(StrategyContext& context)> remake = nullptr;
  /// Changes parameters after a step.
  std::function<void(const AfterStep& after)> spoil = nullptr;
  /// Changes gradients between backward and their exchange; for strategies that wait until combine().
  std::function<void(int rank, int step, const std::vector<at::Tensor>& gradients)> spoil_gradients = nullptr;
  /// Puts the gradients back afterwards, so that others were sent than the rank computed.
  bool restores_gradients = false;
  /// Lets the rank train on the batches of another one.
  bool shares_batches = false;
};

/// Does as `real` does, and then what the fault says.
class Faulty final : public Strategy {
 public:
  Faulty(std::unique_ptr<Strategy> real, const StrategyContext& context, const Fault& fault)
      : real_(std::move(real)),
        parameters_(context.parameters.tensors()),
        rank_(context.communicator == nullptr ? 0 : context.communicator->rank()),
        fault_(fault) {}

  void begin_step() override {
    before_.clear();
    // Between steps a rank may have no more than shards of them.
    for (const at::Tensor& parameter : fault_.spoil ? parameters_ : std::vector<at::Tensor>())
      before_.push_back(parameter.detach().clone());
    real_->begin_step();
  }
  void before_backward(bool last) override { real_->before_backward(last); }
  void combine() override {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients, computed;
    if (fault_.spoil_gradients) {
      for (const at::Tensor& parameter : parameters_) {
        gradients.push_back(parameter.grad());
        computed.push_back(parameter.grad().clone());
      }
      fault_.spoil_gradients(rank_, steps_, gradients);
    }
    real_->combine();
    if (!fault_.restores_gradients) return;
    for (size_t i = 0; i < gradients.size(); ++i) gradients[i].copy_(computed[i]);
  }
  void apply() override {
    real_->apply();
    if (fault_.spoil) {
      const at::NoGradGuard no_grad;
      fault_.spoil({rank_, steps_, parameters_, before_});
    }
    ++steps_;
  }
  void set_learning_rate(double rate) override { real_->set_learning_rate(rate); }
  std::vector<at::Tensor> equal_on_all_ranks() const override { return real_->equal_on_all_ranks(); }
  void finish() override { real_->finish(); }
  void save(replica::State& state) override { real_->save(state); }
  void restore(const replica::State& state) override { real_->restore(state); }
  int64_t momentum_bytes() const override { return real_->momentum_bytes(); }
  std::vector<strategies::Measured> measured() const override { return real_->measured(); }

 private:
  std::unique_ptr<Strategy> real_;
  std::vector<at::Tensor> parameters_, before_;
  int rank_;
  Fault fault_;
  int steps_ = 0;
};

struct Mutant {
  std::string name;
  /// The check that must find it.
  std::string check;
  Fault fault;
  std::string strategy = "ddp";
  std::vector<strategies::GivenOption> options = {};
  /// Keeps the sums of batch norm's statistics to each rank.
  bool splits_batch_norm = false;
};

/// Its duplicates add up nothing.
class WithoutSums final : public comm::ForwardingCommunicator {
 public:
  explicit WithoutSums(comm::Communicator& real, bool of_itself = false)
      : ForwardingCommunicator(real), of_itself_(of_itself) {}

  std::unique_ptr<comm::Communicator> duplicate() override {
    return std::make_unique<WithoutSums>(real_, /*of_itself=*/true);
  }
  comm::WorkPtr issue(const comm::Collective& collective) override {
    return of_itself_ ? real_.barrier() : real_.issue(collective);
  }

 private:
  bool of_itself_;
};

void PrintTo(const Mutant& mutant, std::ostream* out) {
  *out << mutant.name;
}

/// By name, from rank 0.
std::map<std::string, Check> verify(const Mutant& mutant, uint64_t seed) {
  constexpr int kRanks = 2;
  train::SweepOptions sweep;
  const bool normalizes = !mutant.options.empty() && mutant.options.front().flag == "--sync-batch-norm";
  sweep.models = {normalizes ? "resnet20" : "lenet5"};
  sweep.batches = {4};
  sweep.ranks = {kRanks};
  sweep.strategies = {mutant.strategy};
  sweep.strategy_options = mutant.options;
  sweep.controls = false;
  sweep.common.learning_rate = 0.02;
  sweep.common.seed = seed;
  const train::RowPlan row = train::plan_rows(sweep).front();
  const Fault& fault = mutant.fault;
  std::map<std::string, Check> by_name;
  test::with_thread_ranks(kRanks, [&](comm::Communicator& group) {
    train::TraineeStart start;
    start.make_strategy = [&](const StrategyContext& given) {
      StrategyContext context = given;
      if (fault.remake) fault.remake(context);
      return std::make_unique<Faulty>(strategies::registry().get(row.strategy).create(context), context,
                                      fault);
    };
    if (fault.shares_batches) {
      start.make_input = [&](auto accelerator) {
        return train::create_input(row, 0, std::move(accelerator));
      };
    }
    launch::Progress progress;
    WithoutSums without_sums(group);
    comm::Communicator* const ranks = mutant.splits_batch_norm ? &without_sums : &group;
    for (const Check& check : train::verify_row(row, kSteps, ranks, progress, start))
      by_name[check.name] = check;
  });
  return by_name;
}

/// A fault of the move of a step: `factor` times as far.
Fault moves(std::function<double(const AfterStep& after)> factor) {
  return {.spoil = [factor = std::move(factor)](const AfterStep& after) {
    const double times = factor(after);
    if (times == 1) return;
    for (size_t i = 0; i < after.now.size(); ++i) {
      after.now[i].copy_(after.before[i].lerp(after.now[i], times));
    }
  }};
}

Fault optimizer(std::function<void(replica::SgdOptions& optimizer)> change) {
  return {.remake = [change = std::move(change)](StrategyContext& context) { change(context.optimizer); }};
}

Fault after_each(std::function<void(const AfterStep& after)> spoil) {
  return {.spoil = std::move(spoil)};
}

Fault gradients(std::function<void(int rank, int step, const std::vector<at::Tensor>& gradients)> spoil) {
  return {.spoil_gradients = std::move(spoil)};
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<Mutant> mutants() {
  const std::string joint = "joint batch", equal = "replicas equal", again = "run to run",
                    sum = "sum of updates";
  std::vector<Mutant> all{
      {"an_update_dropped", joint, moves([](const AfterStep& at) { return at.step == 1 ? 0 : 1; })},
      {"an_update_doubled", joint, moves([](const AfterStep& at) { return at.step == 1 ? 2 : 1; })},
      {"an_update_turned_around", joint, moves([](const AfterStep& at) { return at.step == 2 ? -1 : 1; })},
      {"the_sum_instead_of_the_mean", joint, optimizer([](auto& own) { own.learning_rate *= 2; })},
      {"a_mean_over_one_rank_too_many", joint, optimizer([](auto& own) { own.learning_rate *= 2.0 / 3; })},
      {"a_rate_off_by_a_thousandth", joint, optimizer([](auto& own) { own.learning_rate *= 1.001; })},
      {"no_momentum", joint, optimizer([](auto& own) { own.momentum = 0; })},
      {"momentum_off_by_a_thousandth", joint, optimizer([](auto& own) { own.momentum = 0.899; })},
      {"nesterov_unasked", joint, optimizer([](auto& own) { own.nesterov = true; })},
      {"no_weight_decay", joint, optimizer([](auto& own) { own.weight_decay = 0; })},
      {"no_update_at_all", joint, optimizer([](auto& own) { own.learning_rate = 0; })},
      {"one_value_not_a_number", joint, after_each([](const AfterStep& at) {
         if (at.step == kLast) at.now[0].view({-1})[0] = std::nanf("");
       })},
      {"all_values_not_numbers", joint, after_each([](const AfterStep& at) {
         for (const at::Tensor& value : at.now) {
           if (at.step == kLast) value.fill_(std::nanf(""));
         }
       })},
      {"infinite_values", joint, after_each([](const AfterStep& at) {
         if (at.step == kLast) at.now.back().fill_(kInfinity);
       })},
      {"values_rounded_to_bf16", joint, after_each([](const AfterStep& at) {
         for (const at::Tensor& value : at.now) value.copy_(value.to(at::kBFloat16));
       })},
      {"one_tensor_never_updated", joint,
       after_each([](const AfterStep& at) { at.now[2].copy_(at.before[2]); })},
      {"one_value_set_back", joint,
       after_each([](const AfterStep& at) { at.now[4].view({-1})[7].copy_(at.before[4].view({-1})[7]); })},
      {"a_rank_on_anothers_batches", joint, {.shares_batches = true}},
      {"a_rate_of_its_own_on_rank_1", equal,
       moves([](const AfterStep& at) { return at.rank == 1 ? 1.0001 : 1; })},
      {"a_last_place_on_rank_1", equal, after_each([](const AfterStep& at) {
         if (at.rank == 1 && at.step == 1) at.now[0].view({-1})[3].mul_(1 + 1.2e-7);
       })},
      {"an_update_dropped_on_rank_1", equal,
       moves([](const AfterStep& at) { return at.rank == 1 && at.step == 2 ? 0 : 1; })},
      {"not_a_number_on_rank_1", equal, after_each([](const AfterStep& at) {
         if (at.rank == 1 && at.step == kLast) at.now[1].fill_(std::nanf(""));
       })},
      {"other_bits_every_time", again, after_each([](const AfterStep& at) {
         static std::atomic<int> calls = 0;
         // The same on both ranks of a step, another one in the next training.
         const int training = calls++ / 6;
         at.now[0].view({-1})[0].add_(1e-7 * (1 + training));
       })},
      {"half_a_batch_ignored",
       joint,
       gradients([](int, int, const std::vector<at::Tensor>& own) {
         for (const at::Tensor& gradient : own) gradient.mul_(0.5);
       }),
       "replicated",
       {{"--overlap", "off"}}},
  };
  for (const char* name : {"replicated", "sharded", "zero2", "zero3", "parameter_server", "horovod", "bsp"}) {
    std::vector<strategies::GivenOption> options;
    if (std::string(name) == "horovod") options = {{"--deterministic", "on"}};
    all.push_back({std::string(name) + "_forgets_the_mean", joint,
                   optimizer([](auto& own) { own.learning_rate *= 2; }), name, options});
    all.push_back({std::string(name) + "_with_another_momentum", joint,
                   optimizer([](auto& own) { own.momentum = 0.88; }), name, options});
    // Between steps its parameters are shards, which no fault reaches.
    if (std::string(name) == "zero3") continue;
    all.push_back({std::string(name) + "_drops_an_update", joint,
                   moves([](const AfterStep& at) { return at.step == 1 ? 0 : 1; }), name, options});
    all.push_back({std::string(name) + "_not_a_number", joint, after_each([](const AfterStep& at) {
                     if (at.step == kLast) at.now[3].view({-1})[0] = std::nanf("");
                   }),
                   name, options});
  }
  const std::string turn = "ranks in turn";
  const std::vector<strategies::GivenOption> diloco{
      {"--sync-every", "2"}, {"--outer-lr", "0.7"}, {"--outer-momentum", "0.9"}};
  const auto local = [&](const std::string& name, const std::string& check, Fault fault) {
    all.push_back({"local_sgd_" + name, check, std::move(fault), "local_sgd", diloco});
  };
  const auto options = [](std::function<void(strategies::StrategyOptions & options)> change) {
    return Fault{
        .remake = [change = std::move(change)](StrategyContext& context) { change(context.options); }};
  };
  local("drops_an_update", turn, moves([](const AfterStep& at) { return at.step == 1 ? 0 : 1; }));
  local("on_anothers_batches", turn, {.shares_batches = true});
  local("outer_rate_off_by_a_thousandth", turn, options([](auto& own) { own.outer_lr *= 1.001; }));
  local("outer_momentum_off_by_a_thousandth", turn, options([](auto& own) { own.outer_momentum = 0.899; }));
  local("averages_only", turn, options([](auto& own) { own.outer_lr = 1, own.outer_momentum = 0; }));
  local("exchanges_in_every_step", turn, options([](auto& own) { own.sync_every = 1; }));
  local("exchanges_late", turn, options([](auto& own) { own.sync_every = 3; }));
  local("never_exchanges", turn, options([](auto& own) { own.sync_every = 1000; }));
  local("inner_momentum_off_by_a_thousandth", turn, optimizer([](auto& own) { own.momentum = 0.899; }));
  local("a_last_place_on_rank_1", equal, after_each([](const AfterStep& at) {
          if (at.rank == 1 && at.step == 1) at.now[0].view({-1})[3].mul_(1 + 1.2e-7);
        }));
  const std::vector<strategies::GivenOption> low_rank{{"--wire", "powersgd:4"}};
  for (const char* name : {"ddp", "replicated"}) {
    const auto factored = [&](const std::string& what, Fault fault) {
      all.push_back({std::string(name) + "_powersgd_" + what, joint, std::move(fault), name, low_rank});
    };
    factored("of_another_rank", options([](auto& own) { own.powersgd = 2; }));
    factored("begins_late", options([](auto& own) { own.powersgd_start = 1; }));
    factored("sends_whole_gradients", options([](auto& own) { own.powersgd = 0; }));
    factored("forgets_the_mean", optimizer([](auto& own) { own.learning_rate *= 2; }));
    factored("drops_an_update", moves([](const AfterStep& at) { return at.step == 1 ? 0 : 1; }));
    factored("on_anothers_batches", {.shares_batches = true});
  }
  const std::vector<strategies::GivenOption> joint_norm{{"--sync-batch-norm", "on"}};
  all.push_back({"batch_norm_of_each_rank", joint, {}, "ddp", joint_norm, /*splits_batch_norm=*/true});
  all.push_back({"batch_norm_on_anothers_batches", joint, {.shares_batches = true}, "ddp", joint_norm});
  all.push_back({"batch_norm_forgets_the_mean", joint, optimizer([](auto& own) { own.learning_rate *= 2; }),
                 "replicated", joint_norm});
  const std::vector<strategies::GivenOption> async{{"--consistency", "async"}};
  const std::vector<strategies::GivenOption> async_late{{"--consistency", "async"}, {"--overlap", "off"}};
  for (const int every : {2, 10}) {
    Fault drops = gradients([every](int rank, int step, const std::vector<at::Tensor>& own) {
      if ((step + rank) % every == 0) return;
      for (const at::Tensor& gradient : own) gradient.zero_();
    });
    drops.restores_gradients = true;
    all.push_back(
        {"async_applies_one_of_" + std::to_string(every), sum, drops, "parameter_server", async_late});
  }
  all.push_back({"async_doubles_the_rate", sum, optimizer([](auto& own) { own.learning_rate *= 2; }),
                 "parameter_server", async});
  all.push_back({"async_rate_off_by_a_thousandth", sum,
                 optimizer([](auto& own) { own.learning_rate *= 1.001; }), "parameter_server", async});
  all.push_back({"async_applies_nothing", sum, optimizer([](auto& own) { own.learning_rate = 0; }),
                 "parameter_server", async});
  all.push_back({"async_keeps_a_momentum", sum, optimizer([](auto& own) { own.momentum = 0.1; }),
                 "parameter_server", async});
  all.push_back({"async_decays_unasked", sum, optimizer([](auto& own) { own.weight_decay = 1e-3; }),
                 "parameter_server", async});
  return all;
}

class MutantTest : public testing::TestWithParam<Mutant> {};

TEST_P(MutantTest, is_found_by_its_check) {
  const auto found = verify(GetParam(), 1);
  const Check& check = found.at(GetParam().check);
  EXPECT_EQ(check.outcome, Check::Outcome::kWrong) << check.name << ": " << check.detail;
}

INSTANTIATE_TEST_SUITE_P(all, MutantTest, testing::ValuesIn(mutants()),
                         [](const auto& named) { return named.param.name; });

/// A seed.
class NoMutantTest : public testing::TestWithParam<int> {};

TEST_P(NoMutantTest, nothing_is_found_in_the_program_as_it_is) {
  const std::vector<Mutant> sound{
      {"ddp", "", {}, "ddp"},
      {"replicated", "", {}, "replicated"},
      {"sharded", "", {}, "sharded"},
      {"zero2", "", {}, "zero2"},
      {"zero3", "", {}, "zero3", {{"--unit-mb", "0.05"}}},
      {"parameter_server", "", {}, "parameter_server"},
      {"horovod", "", {}, "horovod", {{"--deterministic", "on"}}},
      {"bsp", "", {}, "bsp"},
      {"local_sgd", "", {}, "local_sgd", {{"--sync-every", "2"}}},
      {"batch_norm", "", {}, "ddp", {{"--sync-batch-norm", "on"}}},
      {"powersgd", "", {}, "replicated", {{"--wire", "powersgd:4"}}},
      {"diloco", "", {}, "local_sgd", {{"--outer-lr", "0.7"}, {"--outer-momentum", "0.9"}}},
      {"async", "", {}, "parameter_server", {{"--consistency", "async"}}}};
  for (const Mutant& one : sound) {
    for (const auto& [name, check] : verify(one, static_cast<uint64_t>(GetParam()))) {
      EXPECT_NE(check.outcome, Check::Outcome::kWrong) << one.name << ", " << name << ": " << check.detail;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(few, NoMutantTest, testing::Range(1, 4));
INSTANTIATE_TEST_SUITE_P(more, NoMutantTest, testing::Range(4, 21));

}  // namespace
}  // namespace lockstep
