#include "lockstep/train/training/training.h"

#include <filesystem>
#include <optional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

#include "strategies/trained_replica.h"
#include "train/training_case.h"

namespace lockstep::train {
namespace {

using testing::HasSubstr;

TEST_F(TrainingTest, an_epoch_says_what_was_learned) {
  TrainingPlan plan = plan_of({.strategy = "ddp", .model = "mlp"});
  plan.schedule = {.learning_rate = 0.02, .epochs = 10};
  plan.evaluate = true;
  const TrainingResult result = train_ranks(plan);
  ASSERT_EQ(result.epochs.size(), 10U);
  const results::EpochRecord& first = result.epochs.front();
  const results::EpochRecord& last = result.epochs.back();
  EXPECT_EQ(last.epoch, 10);
  EXPECT_EQ(last.steps, 40);
  EXPECT_LT(last.loss, first.loss);
  // 32 images that come again can be learned by heart, and are what is evaluated.
  EXPECT_GT(last.training_accuracy.value(), 0.9);
  EXPECT_GT(*last.evaluation_accuracy, 0.9);
  EXPECT_LT(*last.evaluation_loss, *first.evaluation_loss);
  EXPECT_GT(*last.images_per_s, 0);
}

TEST_F(TrainingTest, the_rate_follows_the_schedule) {
  const TrainingPlan plan = plan_of({.strategy = "replicated"});
  const TrainingResult result = train_ranks(plan);
  const Schedule schedule(plan.schedule, 2, plan.steps_per_epoch);
  for (const results::EpochRecord& epoch : result.epochs) {
    EXPECT_EQ(epoch.learning_rate, schedule.rate(epoch.steps - 1));
  }
  TrainingPlan constant = plan;
  constant.schedule.decay = Decay::kConstant;
  EXPECT_NE(train_ranks(constant).parameters_hash, result.parameters_hash);
}

TEST_F(TrainingTest, rates_count_the_units_of_a_sample) {
  TrainingPlan plan = plan_of({.strategy = "single", .ranks = 1});
  const double samples_per_s = *train_ranks(plan).epochs.back().images_per_s;
  plan.row.units_per_sample = 10'000;
  // Both are of this machine, whatever it does meanwhile.
  EXPECT_GT(*train_ranks(plan).epochs.back().images_per_s, 100 * samples_per_s);
}

TEST_F(TrainingTest, an_evaluation_that_is_not_a_number_ends_it_before_the_checkpoint) {
  TrainingPlan plan = plan_of({.strategy = "single", .ranks = 1});
  // The one step's loss is that of the initial values.
  plan.schedule = {.learning_rate = 1e30, .epochs = 1};
  plan.steps_per_epoch = 1;
  plan.evaluate = true;
  plan.checkpoint_path = path("a.safetensors");
  EXPECT_THROW(train_ranks(plan), Error);
  EXPECT_FALSE(std::filesystem::exists(plan.checkpoint_path));
}

// Evaluation uses the running statistics of rank 0 on all ranks, and leaves each rank its own.
TEST_F(TrainingTest, evaluation_changes_nothing) {
  TrainingPlan plan = plan_of({.strategy = "ddp", .model = "resnet20"});
  plan.schedule.epochs = 2;
  plan.steps_per_epoch = 2;
  plan.schedule.warmup_epochs = 0;
  plan.checkpoint_path = path("a.safetensors");
  const TrainingResult without = train_ranks(plan);
  const Checkpoint first(plan.checkpoint_path);
  plan.evaluate = true;
  const TrainingResult with = train_ranks(plan);
  EXPECT_EQ(with.parameters_hash, without.parameters_hash);
  const Checkpoint second(plan.checkpoint_path);
  ASSERT_EQ(second.head().ranks.size(), 2U);
  for (int rank = 0; rank < 2; ++rank) {
    const replica::State buffers = second.rank(rank).buffers;
    EXPECT_FALSE(buffers.tensors.empty());
    for (const auto& [name, value] : buffers.tensors) {
      EXPECT_TRUE(value.equal(first.rank(rank).buffers.get(name))) << rank << " " << name;
    }
  }
  // Each rank saw other images.
  const auto mean = [&](int rank) { return second.rank(rank).buffers.get("bn1.running_mean"); };
  EXPECT_FALSE(mean(0).equal(mean(1)));
}

TEST_F(TrainingTest, evaluation_uses_running_statistics) {
  at::set_num_threads(1);
  TrainingPlan plan = plan_of({.strategy = "single", .ranks = 1, .model = "resnet20"});
  const models::ModelInfo& info = models::registry().get("resnet20");
  const std::unique_ptr<models::Model> model = info.create({.seed = plan.row.seed});
  const Tally fresh = Evaluation(plan.row, nullptr).run(*model);
  EXPECT_EQ(fresh.samples, 16);
  EXPECT_EQ(Evaluation(plan.row, nullptr).run(*model).loss_sum, fresh.loss_sum);
  for (const auto& [name, buffer] : model->parameters().buffers()) {
    if (name.ends_with("running_var")) buffer.mul_(4);
  }
  EXPECT_NE(Evaluation(plan.row, nullptr).run(*model).loss_sum, fresh.loss_sum);
}

class ResumeTest : public TrainingTest, public testing::WithParamInterface<Kind> {};

// The checkpoint at the end of a training holds everything: parameters, momenta, statistics, buckets, the
// curve.
TEST_P(ResumeTest, a_resumed_training_ends_with_the_same_bits) {
  // After the first step, in the middle of an epoch, at its end.
  expect_same_bits_resumed(plan_of(GetParam()), {1, 6, 8});
}

strategies::StrategyOptions averaging() {
  strategies::StrategyOptions options;
  options.bsp_sync = strategies::BspSync::kAvg;
  return options;
}

strategies::StrategyOptions deterministic() {
  strategies::StrategyOptions options;
  options.deterministic = true;
  options.fusion_mb = 0.05;
  return options;
}

strategies::StrategyOptions low_rank() {
  strategies::StrategyOptions options;
  options.powersgd = 2;
  options.powersgd_start = 2;
  return options;
}

strategies::StrategyOptions every(int steps, double outer_momentum = 0) {
  strategies::StrategyOptions options;
  options.sync_every = steps;
  options.outer_momentum = outer_momentum;
  return options;
}

INSTANTIATE_TEST_SUITE_P(
    all, ResumeTest,
    // Three ranks: a sum of three numbers depends on their order, and so on where a gradient lies.
    testing::Values(Kind{"single", 1}, Kind{"ddp", 3}, Kind{"replicated", 3}, Kind{"sharded", 3},
                    Kind{"parameter_server", 3}, Kind{"bsp", 3}, Kind{"bsp", 2, averaging()},
                    Kind{"ddp", 3, low_rank()}, Kind{"replicated", 3, low_rank()},
                    Kind{"local_sgd", 3, every(4)}, Kind{"local_sgd", 3, every(3, 0.5)},
                    Kind{"horovod", 3, deterministic()}, Kind{"data_parallel", 2},
                    Kind{"parameter_server", 1,
                         [] {
                           strategies::StrategyOptions options;
                           options.consistency = strategies::Consistency::kAsync;
                           return options;
                         }()},
                    Kind{"ddp", 2, {}, "resnet20"}),
    [](const auto& param) {
      return param.param.strategy + "_" + std::to_string(param.param.ranks) + "_" +
             std::to_string(param.index);
    });

class RefusalTest : public TrainingTest {
 protected:
  RefusalTest() : plan_(plan_of({.strategy = "ddp"})) {
    plan_.checkpoint_path = path("a.safetensors");
    plan_.stop_after = 4;
    train_ranks(plan_);
    plan_.stop_after.reset();
    plan_.resume_path = plan_.checkpoint_path;
  }

  static std::string refusal(const TrainingPlan& plan) {
    try {
      read_checkpoint_of(plan);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  }

  TrainingPlan plan_;
};

TEST_F(RefusalTest, a_training_that_has_ended_is_written_to_another_file) {
  plan_.resume_path.clear();
  train_ranks(plan_);
  plan_.resume_path = plan_.checkpoint_path;
  plan_.checkpoint_path = path("b.safetensors");
  train_ranks(plan_);
  EXPECT_TRUE(read_file(plan_.checkpoint_path) == read_file(plan_.resume_path));
}

TEST_F(RefusalTest, another_training_is_refused_with_what_differs) {
  EXPECT_EQ(refusal(plan_), "accepted");
  TrainingPlan other = plan_;
  other.row.model = "mlp";
  EXPECT_THAT(refusal(other), HasSubstr("network lenet5 there, mlp here"));
  other = plan_;
  other.row.ranks = 3;
  EXPECT_THAT(refusal(other), HasSubstr("number of ranks 2 there, 3 here"));
  other = plan_;
  other.row.strategy = "replicated";
  EXPECT_THAT(refusal(other), HasSubstr("strategy ddp there, replicated here"));
  other = plan_;
  other.row.seed = 2;
  EXPECT_THAT(refusal(other), HasSubstr("seed 1 there, 2 here"));
  other = plan_;
  other.schedule.learning_rate = 0.5;
  EXPECT_THAT(refusal(other), HasSubstr("learning rate cosine from 0.02"));
  other = plan_;
  other.steps_per_epoch = 5;
  EXPECT_THAT(refusal(other), HasSubstr("steps per epoch 4 there, 5 here"));
}

TEST_F(RefusalTest, more_epochs_are_another_training_only_where_the_rate_depends_on_them) {
  TrainingPlan other = plan_;
  other.schedule.epochs = 9;
  EXPECT_THAT(refusal(other), HasSubstr("over 3 epochs there"));
  plan_.schedule.decay = Decay::kConstant;
  plan_.resume_path.clear();
  train_ranks(plan_);
  plan_.resume_path = plan_.checkpoint_path;
  plan_.schedule.epochs = 9;
  EXPECT_EQ(refusal(plan_), "accepted");
  plan_.schedule.epochs = 2;
  EXPECT_THAT(refusal(plan_), HasSubstr("has 12 steps, and 2 epochs have only 8"));
}

TEST_F(RefusalTest, how_a_row_is_measured_makes_no_other_training) {
  plan_.row.pacing = {
      .warmup_steps = 3, .steps = 7, .precision_target = 0.5, .min_time_s = 9, .max_time_s = 99};
  EXPECT_EQ(refusal(plan_), "accepted");
}

TEST_F(RefusalTest, other_files_are_refused) {
  const std::string whole = read_file(plan_.resume_path);
  plan_.resume_path = path("b.safetensors");
  write_file_atomically(plan_.resume_path, whole.substr(0, whole.size() - 100));
  EXPECT_THAT(refusal(plan_), HasSubstr("b.safetensors' has a damaged header: values beyond the end"));
  // A bit of a value, which nothing else would notice.
  std::string damaged = whole;
  char& byte = damaged[damaged.size() / 3];
  byte = static_cast<char>(byte ^ 1);
  write_file_atomically(plan_.resume_path, damaged);
  EXPECT_THAT(refusal(plan_), HasSubstr("b.safetensors' is damaged: its contents are not what was written"));
  // The key of the checksum itself.
  damaged = whole;
  damaged[damaged.find("lockstep_blake2b")] = 'L';
  write_file_atomically(plan_.resume_path, damaged);
  EXPECT_THAT(refusal(plan_), HasSubstr("b.safetensors' is a checkpoint without its checksum"));
  plan_.resume_path = path("missing.safetensors");
  EXPECT_THAT(refusal(plan_), HasSubstr("missing.safetensors': No such file"));
  plan_.resume_path = LOCKSTEP_GOLDEN "/../references/state_dict.pt";
  EXPECT_THAT(refusal(plan_), HasSubstr("state_dict.pt' was written by torch.save, whose files"));
  plan_.resume_path = path("c.safetensors");
  write_tensors(plan_.resume_path, {{"fc.bias", at::ones({2})}});
  EXPECT_THAT(refusal(plan_), HasSubstr("c.safetensors' is not a checkpoint of lockstep"));
}

TEST_F(RefusalTest, no_damaged_checkpoint_gives_other_initial_values) {
  const std::string whole = read_file(plan_.resume_path);
  const auto values = [&](const std::string& text) -> std::optional<std::string> {
    write_file_atomically(path("d.safetensors"), text);
    try {
      std::string all;
      for (const auto& [name, value] : read_state_dict(path("d.safetensors")))
        all.append(name).append(values_of(value));
      return all;
    } catch (const ConfigError&) {
      return std::nullopt;
    }
  };
  const auto intact = values(whole);
  ASSERT_TRUE(intact);
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    std::string damaged = whole;
    // Half of them in the header.
    const size_t at = random() % (i % 2 == 0 ? damaged.size() : 2000);
    if (i % 5 == 0) {
      damaged.resize(at);
    } else if (i % 5 == 1) {
      damaged.erase(at, 1);
    } else {
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
    }
    const auto found = values(damaged);
    EXPECT_TRUE(!found || found == intact) << "byte " << at;
  }
}

TEST_F(RefusalTest, circumstances_that_differ_are_told) {
  const Checkpoint checkpoint = read_checkpoint_of(plan_);
  EXPECT_EQ(changed_circumstances(plan_, checkpoint.head()), "");
  plan_.circumstances = {{"threads per rank", "8"}};
  EXPECT_EQ(changed_circumstances(plan_, checkpoint.head()), "threads per rank none there, 8 here");
}

class InitTest : public TrainingTest {
 protected:
  static std::string refusal(const std::vector<replica::NamedTensor>& values) {
    const std::unique_ptr<models::Model> model = models::registry().get("lenet5").create({});
    try {
      load_values(values, model->parameters(), "a.safetensors");
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  }
};

TEST_F(InitTest, a_training_begins_with_the_values_of_a_file) {
  TrainingPlan plan = plan_of({.strategy = "ddp"});
  plan.checkpoint_path = path("a.safetensors");
  const TrainingResult first = train_ranks(plan);
  plan.init_path = plan.checkpoint_path;
  plan.checkpoint_path.clear();
  const TrainingResult second = train_ranks(plan);
  EXPECT_LT(second.epochs.front().loss, first.epochs.front().loss);
  EXPECT_NE(second.parameters_hash, first.parameters_hash);
}

TEST_F(InitTest, ranks_that_read_different_files_are_refused) {
  const std::unique_ptr<models::Model> model = models::registry().get("resnet20").create({.seed = 5});
  std::vector<replica::NamedTensor> values = model->parameters().trainable();
  values.insert(values.end(), model->parameters().buffers().begin(), model->parameters().buffers().end());
  write_tensors(path("0.safetensors"), values);
  // In a running statistic alone.
  model->parameters().buffers().front().value.add_(1);
  write_tensors(path("1.safetensors"), values);
  const TrainingPlan plan = plan_of({.strategy = "ddp", .model = "resnet20"});
  test::with_thread_ranks(2, [&](comm::Communicator& group) {
    TrainingPlan own = plan;
    own.init_path = path(std::to_string(group.rank()) + ".safetensors");
    launch::Progress progress;
    EXPECT_THROW(train(own, &group, progress, [](const auto&) {}), ConfigError);
  });
}

TEST_F(InitTest, values_of_another_network_are_refused_with_what_differs) {
  const std::unique_ptr<models::Model> model = models::registry().get("lenet5").create({.seed = 5});
  const std::vector<replica::NamedTensor> values = model->parameters().trainable();
  EXPECT_EQ(refusal(values), "accepted");
  std::vector<replica::NamedTensor> other = values;
  other.pop_back();
  EXPECT_THAT(refusal(other), HasSubstr("it has no fc3.bias"));
  other = values;
  other.push_back({"fc4.bias", at::ones({3})});
  EXPECT_THAT(refusal(other), HasSubstr("the network has no fc4.bias"));
  other = values;
  other[0].value = at::ones({6, 3, 5, 5});
  EXPECT_THAT(refusal(other),
              HasSubstr("its conv1.weight has the shape [6, 3, 5, 5], the network's [6, 1, 5, 5]"));
}

// A size that begins with the byte of a pickle, or the letters of a ZIP archive, is no sign of torch.save.
TEST_F(InitTest, a_header_of_any_size_is_read) {
  for (size_t size = 0; size < 256; size += 8) {
    write_tensors(path("a.safetensors"), {{"x", at::ones({3})}}, {{"text", std::string(size, ' ')}});
    EXPECT_EQ(TensorFile(path("a.safetensors")).tensors().size(), 1U) << size;
  }
}

TEST_F(InitTest, wrapped_names_are_understood) {
  const std::unique_ptr<models::Model> model = models::registry().get("lenet5").create({.seed = 5});
  std::vector<replica::NamedTensor> wrapped = model->parameters().trainable();
  for (replica::NamedTensor& tensor : wrapped) tensor.name.insert(0, "module.");
  write_tensors(path("a.safetensors"), wrapped);
  EXPECT_EQ(refusal(read_state_dict(path("a.safetensors"))), "accepted");
}

}  // namespace
}  // namespace lockstep::train
