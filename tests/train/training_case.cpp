#include "train/training_case.h"

#include <ATen/Parallel.h>

#include "lockstep/base/file.h"
#include "lockstep/train/rows/row_input.h"

#include "strategies/trained_replica.h"

namespace lockstep::train {

TrainingPlan plan_of(const Kind& kind) {
  SweepOptions sweep;
  sweep.models = {kind.model};
  sweep.strategies = {kind.strategy};
  sweep.ranks = {kind.ranks};
  sweep.batches = {4};
  sweep.bucket_mb = {0.05};
  sweep.controls = false;
  if (!kind.data.empty()) sweep.common.input = "dataset";
  sweep.common.data = kind.data;
  TrainingPlan plan;
  plan.row = plan_rows(sweep).front();
  plan.row.parsed_options = kind.options;
  plan.schedule = {.learning_rate = 0.02, .warmup_epochs = 1, .decay = Decay::kCosine, .epochs = 3};
  const InputFacts input = look_at_input(plan.row, /*evaluates=*/true);
  plan.steps_per_epoch = input.steps_per_epoch;
  plan.data = input.data;
  return plan;
}

TrainingResult train_ranks(const TrainingPlan& plan) {
  TrainingResult result;
  const bool alone = training_ranks(plan.row) == 1 && !traits_of(plan.row).communicates;
  const auto body = [&](comm::Communicator* group) {
    launch::Progress progress;
    TrainingResult own = train(plan, group, progress, [](const auto&) {});
    if (group == nullptr || group->rank() == 0) result = std::move(own);
  };
  if (alone) {
    at::set_num_threads(1);
    body(nullptr);
  } else {
    test::with_thread_ranks(plan.row.ranks, [&](comm::Communicator& group) { body(&group); });
  }
  return result;
}

void TrainingTest::expect_same_bits_resumed(TrainingPlan plan, const std::vector<int64_t>& stops) const {
  plan.evaluate = true;
  plan.checkpoint_path = path("undisturbed.safetensors");
  plan.checkpoint_every = 1;
  const TrainingResult undisturbed = train_ranks(plan);
  for (const int64_t stop : stops) {
    TrainingPlan first = plan;
    first.checkpoint_path = path("stopped.safetensors");
    first.stop_after = stop;
    train_ranks(first);
    ASSERT_EQ(Checkpoint(first.checkpoint_path).head().step, stop);
    TrainingPlan second = plan;
    second.checkpoint_path = path("resumed.safetensors");
    second.resume_path = first.checkpoint_path;
    const TrainingResult resumed = train_ranks(second);
    EXPECT_EQ(resumed.resumed_at_step, stop);
    EXPECT_EQ(resumed.parameters_hash, undisturbed.parameters_hash) << stop;
    EXPECT_TRUE(read_file(path("undisturbed.safetensors")) == read_file(path("resumed.safetensors"))) << stop;
  }
}

}  // namespace lockstep::train
