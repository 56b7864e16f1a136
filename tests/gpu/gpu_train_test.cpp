#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/clock.h"
#include "lockstep/comm/backend.h"
#include "lockstep/comm/store.h"
#include "lockstep/replica/accelerator.h"
#include "lockstep/replica/precision.h"
#include "lockstep/train/step/step_loop.h"
#include "lockstep/train/step/traced_communicator.h"

#include "strategies/trained_replica.h"

namespace lockstep {
namespace {

constexpr int kSteps = 20;

/// How far two trainings are apart, as a share of how far they moved.
double distance(const std::vector<float>& a, const std::vector<float>& b, const std::vector<float>& begin) {
  double apart = 0, moved = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    apart += std::pow(static_cast<double>(a[i]) - b[i], 2);
    moved += std::pow(static_cast<double>(b[i]) - begin[i], 2);
  }
  return std::sqrt(apart / moved);
}

/// One rank on one GPU.
class GpuTrainTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const replica::AcceleratorStatus status = replica::accelerator_status();
    if (!status.usable) GTEST_SKIP() << "no GPU: " << status.detail;
    accelerator_ = replica::open_accelerator(0);
    accelerator_->enter_thread();
    // Two trainings are to differ by what is tested alone.
    replica::set_up_precision(replica::Precision::kFp32, c10::DeviceType::CUDA,
                              replica::Algorithms::kRepeatable);
    nccl_ = comm::connect("nccl", {.rank = 0, .size = 1, .store = &store_, .cuda_device = 0});
    host_ = comm::connect("thread", {.rank = 0, .size = 1, .store = &store_});
  }

  test::TrainedReplica on_gpu(const std::string& model, const std::string& strategy) {
    const bool alone = strategy == "single";
    return test::make_replica({.model = model,
                               .strategy = strategy,
                               .batch = 8,
                               .image_size = model == "resnet18" ? 64 : 0,
                               .learning_rate = 0.01,
                               .accelerator = accelerator_,
                               .control = alone ? nullptr : host_.get()},
                              alone ? nullptr : nccl_.get());
  }

  static test::TrainedReplica on_cpu(const std::string& model) {
    return test::make_replica({.model = model,
                               .strategy = "single",
                               .batch = 8,
                               .image_size = model == "resnet18" ? 64 : 0,
                               .learning_rate = 0.01},
                              nullptr);
  }

  train::StepLoopResult run(test::TrainedReplica& of, train::StepLoopOptions options,
                            train::TracedCommunicator* tracer = nullptr) {
    launch::Progress progress;
    return train::run_steps({.model = *of.model,
                             .input = *of.input,
                             .strategy = *of.strategy,
                             .communicator = of.communicator,
                             .stamp_phases = tracer != nullptr,
                             .tracer = tracer,
                             .accelerator = accelerator_.get()},
                            options, progress);
  }

  comm::HashStore store_;
  std::shared_ptr<replica::Accelerator> accelerator_;
  std::unique_ptr<comm::Communicator> nccl_;
  std::unique_ptr<comm::Communicator> host_;
};

TEST_P(GpuTrainTest, a_gpu_trains_as_the_cpu_does) {
  // Without batch norm, whose noise grows from step to step.
  test::TrainedReplica cpu = on_cpu("lenet5");
  test::TrainedReplica gpu = on_gpu("lenet5", GetParam());
  const std::vector<float> begin = cpu.parameters();
  ASSERT_EQ(gpu.parameters(), begin);
  cpu.train(kSteps);
  run(gpu, {.pacing = {.warmup_steps = 0, .steps = kSteps}});
  EXPECT_LT(distance(gpu.parameters(), cpu.parameters(), begin), 1e-3);
}

class GpuRecordTest : public GpuTrainTest {};

TEST_P(GpuRecordTest, a_recorded_step_trains_as_one_that_is_not) {
  for (const char* model : {"lenet5", "resnet18"}) {
    test::TrainedReplica eager = on_gpu(model, GetParam());
    const std::vector<float> begin = eager.parameters();
    run(eager, {.pacing = {.warmup_steps = 0, .steps = kSteps}});
    test::TrainedReplica recorded = on_gpu(model, GetParam());
    const int before = strategies::registry().get(GetParam()).traits({}).steps_before_recording;
    const train::StepLoopResult result =
        run(recorded, {.pacing = {.warmup_steps = 0, .steps = kSteps - before}, .record_after = before});
    EXPECT_EQ(result.step_s.size(), static_cast<size_t>(kSteps - before));
    EXPECT_LT(distance(recorded.parameters(), eager.parameters(), begin), 0.05) << model;
  }
}

TEST_P(GpuTrainTest, nothing_falls_between_two_steps) {
  test::TrainedReplica gpu = on_gpu("resnet18", GetParam());
  run(gpu, {.pacing = {.warmup_steps = 5, .steps = 5}});
  const double begin_s = now_s();
  const train::StepLoopResult result = run(gpu, {.pacing = {.warmup_steps = 0, .steps = 100}});
  const double whole_s = now_s() - begin_s;
  const double sum_s = std::accumulate(result.step_s.begin(), result.step_s.end(), 0.0);
  EXPECT_LE(sum_s, 1.01 * whole_s);
  EXPECT_GT(sum_s, 0.9 * whole_s);
}

TEST_P(GpuTrainTest, phases_are_events_that_sum_to_the_step) {
  std::optional<train::TracedCommunicator> tracer;
  tracer.emplace(*nccl_);
  tracer->stamp_on(accelerator_);
  test::TrainedReplica gpu = GetParam() == std::string("single")
                                 ? on_gpu("resnet18", "single")
                                 : test::make_replica({.model = "resnet18",
                                                       .strategy = GetParam(),
                                                       .batch = 8,
                                                       .image_size = 64,
                                                       .accelerator = accelerator_,
                                                       .control = host_.get()},
                                                      &*tracer);
  tracer->forget_stamps();
  const train::StepLoopResult result = run(gpu, {.pacing = {.warmup_steps = 12, .steps = 20}}, &*tracer);
  ASSERT_EQ(result.stamps.size(), 20u);
  for (size_t i = 0; i < result.stamps.size(); ++i) {
    const measure::StepStamps& step = result.stamps[i];
    EXPECT_NEAR(step.end_s - step.begin_s, result.step_s[i], 1e-6);
    double before_s = step.begin_s;
    for (const double at_s :
         {step.input_s, step.forward_s, step.backward_s, step.combined_s, step.applied_s}) {
      EXPECT_GE(at_s, before_s - 1e-6);
      before_s = at_s;
    }
    for (const measure::CollectiveStamp& collective : step.collectives) {
      EXPECT_GE(collective.ended_s, collective.issued_s - 1e-6);
      EXPECT_GE(collective.issued_s, step.begin_s - 1e-6);
      EXPECT_LE(collective.ended_s, step.end_s + 1e-6);
    }
  }
}

class GpuCostTest : public GpuTrainTest {
 protected:
  /// Per step, of a loop that does what a step does and nothing more.
  double bare_step_s(test::TrainedReplica& of, replica::Sgd& optimizer, int steps) {
    accelerator_->synchronize();
    const double begin_s = now_s();
    for (int i = 0; i < steps; ++i) {
      optimizer.clear_gradients();
      const inputs::Batch& batch = of.input->next();
      models::cross_entropy(of.model->forward(batch.images, {}), batch.labels).backward();
      optimizer.step();
    }
    accelerator_->synchronize();
    return (now_s() - begin_s) / steps;
  }

  double lockstep_step_s(test::TrainedReplica& of, int steps) {
    accelerator_->synchronize();
    const double begin_s = now_s();
    run(of, {.pacing = {.warmup_steps = 0, .steps = steps}});
    return (now_s() - begin_s) / steps;
  }
};

TEST_P(GpuCostTest, lockstep_adds_less_than_50_us_to_a_step) {
  // A network so small that the host decides the time of a step.
  constexpr int kBlocks = 11;
  constexpr int kBlockSteps = 300;
  test::TrainedReplica bare = on_gpu("trivial", "single");
  replica::Sgd optimizer(bare.model->parameters().tensors(), {.learning_rate = 0.01});
  test::TrainedReplica own = on_gpu("trivial", GetParam());
  bare_step_s(bare, optimizer, kBlockSteps);
  lockstep_step_s(own, kBlockSteps);
  std::vector<double> added_s;
  double bare_s = 0;
  for (int i = 0; i < kBlocks; ++i) {
    bare_s = bare_step_s(bare, optimizer, kBlockSteps);
    added_s.push_back(lockstep_step_s(own, kBlockSteps) - bare_s);
  }
  std::ranges::nth_element(added_s, added_s.begin() + kBlocks / 2);
  std::cout << "lockstep adds " << added_s[kBlocks / 2] * 1e6 << " us to a step of " << bare_s * 1e6
            << " us\n";
  EXPECT_LT(added_s[kBlocks / 2], 50e-6);
}

std::string name_of(const testing::TestParamInfo<const char*>& of) {
  return of.param;
}

INSTANTIATE_TEST_SUITE_P(Strategies, GpuTrainTest, testing::Values("single", "replicated", "sharded", "ddp"),
                         name_of);
// Other strategies add communication, which a bound on the host does not cover.
INSTANTIATE_TEST_SUITE_P(Strategies, GpuCostTest, testing::Values("single"), name_of);
INSTANTIATE_TEST_SUITE_P(Strategies, GpuRecordTest, testing::Values("single", "replicated", "sharded", "ddp"),
                         name_of);

}  // namespace
}  // namespace lockstep
