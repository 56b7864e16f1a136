#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

#include "lockstep/base/error.h"
#include "lockstep/replica/accelerator.h"
#include "lockstep/replica/flat_memory.h"
#include "lockstep/replica/precision.h"

namespace lockstep::replica {
namespace {

using testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class GpuReplicaTest : public testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    const AcceleratorStatus status = accelerator_status();
    if (!status.usable) GTEST_SKIP() << "no GPU: " << status.detail;
    accelerator_ = open_accelerator(0);
    accelerator_->enter_thread();
  }

  at::Tensor on_gpu(const at::Tensor& tensor) const { return tensor.to(accelerator_->device()); }
  at::Tensor full_on_gpu(at::IntArrayRef shape, double value) const {
    return at::full(shape, value, at::TensorOptions().dtype(at::kFloat).device(accelerator_->device()));
  }

  std::shared_ptr<Accelerator> accelerator_;
};

TEST_F(GpuReplicaTest, marks_tell_the_gpus_time) {
  const at::Tensor factor = full_on_gpu({4096, 4096}, 1e-4);
  at::Tensor product = factor;
  const auto begin = accelerator_->mark();
  for (int i = 0; i < 50; ++i) product = product.matmul(factor);
  const auto end = accelerator_->mark();
  accelerator_->wait(*end);
  // 50 such products take milliseconds on any GPU.
  EXPECT_GT(accelerator_->seconds_between(*begin, *end), 0.001);
  EXPECT_LT(accelerator_->seconds_between(*begin, *end), 10);
}

TEST_F(GpuReplicaTest, every_accelerator_has_a_stream_of_its_own) {
  const std::shared_ptr<Accelerator> other = open_accelerator(0);
  EXPECT_NE(other->stream(), accelerator_->stream());
  EXPECT_NE(accelerator_->stream(), nullptr);
  // One per thread, and a mark of one says nothing of the other's work.
  std::thread([&] {
    other->enter_thread();
    const at::Tensor factor = full_on_gpu({4096, 4096}, 1e-4);
    at::Tensor product = factor;
    for (int i = 0; i < 50; ++i) product = product.matmul(factor);
    const auto own = other->mark();
    const auto idle = accelerator_->mark();
    accelerator_->wait(*idle);
    other->wait(*own);
    EXPECT_GT(other->seconds_between(*idle, *own), 0);
  }).join();
}

TEST_F(GpuReplicaTest, streams_are_used_again_and_never_by_two) {
  void* const own = accelerator_->stream();
  void* other = nullptr;
  {
    const auto second = open_accelerator(0);
    other = second->stream();
    EXPECT_NE(other, own);
  }
  EXPECT_EQ(open_accelerator(0)->stream(), other);
}

TEST_F(GpuReplicaTest, memory_that_no_tensor_has_goes_back_where_it_is_asked_for) {
  constexpr int64_t kBytes = int64_t{1} << 30;
  const auto free_bytes = [&] {
    accelerator_->synchronize();
    return static_cast<int64_t>(at::accelerator::getMemoryInfo(0).first);
  };
  accelerator_->release_unused_memory();
  const int64_t before = free_bytes();
  full_on_gpu({kBytes / 4}, 1);
  EXPECT_LT(free_bytes(), before - kBytes / 2);
  accelerator_->release_unused_memory();
  EXPECT_GT(free_bytes(), before - kBytes / 2);
}

TEST_F(GpuReplicaTest, pinned_memory_is_pinned_and_copies_arrive) {
  const at::Tensor host = accelerator_->pinned({1000}, at::kFloat);
  EXPECT_TRUE(host.is_pinned());
  host.copy_(full_on_gpu({1000}, 3), /*non_blocking=*/true);
  accelerator_->wait(*accelerator_->mark());
  EXPECT_TRUE(at::equal(host, at::full({1000}, 3.0F)));
}

TEST_F(GpuReplicaTest, the_peak_is_that_of_the_most_memory_since_the_reset) {
  constexpr int64_t kBytes = 64 << 20;
  { const at::Tensor large = full_on_gpu({kBytes / 4}, 0); }
  accelerator_->reset_peak_memory();
  const int64_t before = accelerator_->peak_memory_bytes();
  { const at::Tensor large = full_on_gpu({kBytes / 4}, 0); }
  EXPECT_EQ(accelerator_->peak_memory_bytes() - before, kBytes);
  accelerator_->reset_peak_memory();
  EXPECT_EQ(accelerator_->peak_memory_bytes(), before);
}

TEST_F(GpuReplicaTest, memory_that_runs_out_says_what_was_asked_for) {
  try {
    accelerator_->pinned({1}, at::kFloat);
    // 4 PB.
    accelerator_->record([&] { full_on_gpu({int64_t{1} << 50}, 0); });
    ADD_FAILURE() << "that much memory was had";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("out of memory"));
    EXPECT_THAT(error.what(), HasSubstr("Tried to allocate"));
    EXPECT_THAT(error.advice(), HasSubstr("--batch"));
  }
}

TEST_F(GpuReplicaTest, recorded_work_is_not_carried_out_until_it_is_launched) {
  const at::Tensor in = full_on_gpu({1000}, 1);
  const at::Tensor out = full_on_gpu({1000}, 0);
  const auto work = [&] { out.add_(in, 2); };
  work();
  out.zero_();
  const std::unique_ptr<RecordedWork> recorded = accelerator_->record(work);
  EXPECT_EQ(out.sum().item<float>(), 0);
  for (int launch = 1; launch <= 3; ++launch) {
    in.fill_(launch);
    recorded->launch();
  }
  EXPECT_TRUE(at::equal(out.cpu(), at::full({1000}, 12.0F)));
}

TEST_F(GpuReplicaTest, a_recorded_step_trains_as_one_that_is_not_and_follows_the_rate) {
  const at::NoGradGuard no_grad;
  SgdOptions options{.learning_rate = 0.1, .weight_decay = 0.01};
  const at::Tensor gradient = at::rand({4096});
  const at::Tensor start = at::rand({4096});
  const auto train = [&](bool record) {
    SgdOptions own = options;
    own.keep_rate_on(accelerator_->device());
    const at::Tensor value = on_gpu(start);
    const at::Tensor momentum = full_on_gpu({4096}, 0);
    const at::Tensor given = on_gpu(gradient);
    const auto step = [&] { fused_sgd({value}, {given}, {momentum}, own, false); };
    step();
    std::unique_ptr<RecordedWork> recorded;
    if (record) recorded = accelerator_->record(step);
    for (int i = 0; i < 20; ++i) {
      own.set_learning_rate(0.1 / (i + 1));
      record ? recorded->launch() : step();
    }
    return value.cpu();
  };
  const at::Tensor eager = train(false);
  EXPECT_TRUE(at::equal(train(true), eager));

  // And as on the CPU, but for its roundings.
  const at::Tensor value = start.clone();
  const at::Tensor momentum = at::zeros({4096});
  fused_sgd({value}, {gradient}, {momentum}, options, false);
  for (int i = 0; i < 20; ++i) {
    options.learning_rate = 0.1 / (i + 1);
    fused_sgd({value}, {gradient}, {momentum}, options, false);
  }
  EXPECT_TRUE(at::allclose(eager, value, 1e-5, 1e-6));
}

TEST_F(GpuReplicaTest, an_overflow_in_a_recorded_step_is_left_out_on_the_gpu) {
  const at::NoGradGuard no_grad;
  SgdOptions options{.learning_rate = 0.5, .momentum = 0.9, .weight_decay = 0};
  options.keep_rate_on(accelerator_->device());
  options.loss_scale = std::make_shared<LossScale>(accelerator_->device(),
                                                   LossScaleOptions{.initial = 16, .growth_interval = 4});
  const at::Tensor value = full_on_gpu({1000}, 1);
  const at::Tensor momentum = full_on_gpu({1000}, 0);
  const at::Tensor arrived = full_on_gpu({1000}, 0);
  const at::Tensor gradient = full_on_gpu({1000}, 0);
  const auto step = [&] {
    gradient.copy_(options.loss_scale->scaled(arrived));
    options.loss_scale->unscale({gradient});
    fused_sgd({value}, {gradient}, {momentum}, options, false);
    options.loss_scale->update();
  };
  const auto value_of_scale = [&] { return options.loss_scale->scaled(full_on_gpu({}, 1)).item<double>(); };
  step();
  const auto recorded = accelerator_->record(step);
  arrived.fill_(kInfinity);
  recorded->launch();
  EXPECT_EQ(value_of_scale(), 8);
  EXPECT_TRUE(at::equal(value.cpu(), at::full({1000}, 1.0F)));
  EXPECT_EQ(momentum.abs().sum().item<float>(), 0);
  arrived.fill_(1);
  for (int i = 0; i < 4; ++i) recorded->launch();
  EXPECT_EQ(value_of_scale(), 16);
  // Momenta of 1, 1.9, 2.71, 3.439.
  EXPECT_TRUE(at::allclose(value.cpu(), at::full({1000}, static_cast<float>(1 - 0.5 * 9.049)), 1e-5, 1e-6));
}

TEST_F(GpuReplicaTest, what_cannot_be_recorded_says_so_and_leaves_the_stream_usable) {
  const at::Tensor in = full_on_gpu({1000}, 1);
  const at::Tensor out = full_on_gpu({1000}, 0);
  try {
    accelerator_->record([&] {
      out.add_(in);
      // Has to wait for what is not carried out.
      EXPECT_EQ(out.sum().item<float>(), 0);
    });
    ADD_FAILURE() << "reading from the GPU was recorded";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("CUDA graph"));
    EXPECT_THAT(error.advice(), HasSubstr("--cuda-graph"));
  }
  EXPECT_THROW(accelerator_->record([&] {
    out.add_(in);
    throw ConfigError("of the work's own");
  }),
               ConfigError);
  EXPECT_THROW(accelerator_->record([&] { accelerator_->mark(); }), Error);

  EXPECT_EQ(out.sum().item<float>(), 0);
  const auto recorded = accelerator_->record([&] { out.add_(in); });
  recorded->launch();
  EXPECT_EQ(out.sum().item<float>(), 1000);
  const auto mark = accelerator_->mark();
  accelerator_->wait(*mark);
}

TEST_F(GpuReplicaTest, a_backward_pass_in_autograds_own_thread_is_recorded) {
  const at::Tensor weight = full_on_gpu({256, 256}, 0.01).set_requires_grad(true);
  const at::Tensor images = on_gpu(at::rand({32, 256}));
  const auto step = [&] {
    weight.mutable_grad().reset();
    images.matmul(weight).relu().pow(2).sum().backward();
  };
  step();
  const at::Tensor expected = weight.grad().cpu();
  const auto recorded = accelerator_->record(step);
  // Made while it was recorded, so it lies in the graph's memory.
  weight.grad().zero_();
  recorded->launch();
  EXPECT_TRUE(at::allclose(weight.grad().cpu(), expected, 1e-4, 1e-4));
}

TEST_F(GpuReplicaTest, sums_in_flat_memory_are_divided_as_they_are_applied) {
  Parameters parameters(1, at::MemoryFormat::ChannelsLast);
  parameters.add("fc", {6, 8}, Init::normal(1));
  parameters.move_to(accelerator_->device());
  FlatMemory memory(parameters, {0});
  const Range all{0, memory.count()};
  const at::Tensor before = memory.values(all).clone();
  SgdOptions options{.learning_rate = 0.5, .momentum = 0.9, .weight_decay = 0};
  options.divide_gradients_by(4, accelerator_->device());
  memory.gradients(all).fill_(4);
  memory.apply(all, options, /*first_step=*/true);
  EXPECT_TRUE(at::equal(memory.gradients(all), at::ones_like(before)));
  EXPECT_TRUE(at::equal(memory.values(all), before.sub(0.5)));
}

TEST_F(GpuReplicaTest, flat_memory_and_saved_states_go_there_and_back) {
  Parameters parameters(1, at::MemoryFormat::ChannelsLast);
  parameters.add("conv", {8, 3, 5, 5}, Init::normal(1));
  parameters.add("fc", {6, 8}, Init::normal(1));
  parameters.add("bias", {10}, Init::normal(1));
  const at::Tensor before = parameters.tensors()[0].detach().clone();
  parameters.move_to(accelerator_->device());
  FlatMemory memory(parameters, {2, 1, 0});
  for (const at::Tensor& tensor : parameters.tensors()) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 64, 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.grad().const_data_ptr()) % 64, 0);
  }
  EXPECT_TRUE(memory.values({0, memory.count()}).is_cuda());
  EXPECT_TRUE(memory.gradients({0, memory.count()}).is_cuda());
  EXPECT_TRUE(at::equal(parameters.tensors()[0].detach().cpu(), before));
  EXPECT_EQ(parameters.tensors()[0].strides(), before.strides());

  memory.gradients({0, memory.count()}).fill_(1);
  memory.apply({0, memory.count()}, {}, /*first_step=*/true);
  State state;
  memory.save(state);
  for (const NamedTensor& tensor : state.tensors) EXPECT_TRUE(tensor.value.is_cpu()) << tensor.name;
  FlatMemory other(parameters, {0, 1, 2});
  other.restore(state);
  EXPECT_TRUE(at::equal(other.momenta({0, other.count()}), memory.momenta({0, memory.count()})));
}

TEST_F(GpuReplicaTest, tf32_rounds_and_fp32_does_not) {
  const at::Tensor left = at::rand({512, 512});
  const at::Tensor right = at::rand({512, 512});
  const at::Tensor exact = left.to(at::kDouble).matmul(right.to(at::kDouble));
  const auto error_in = [&](Precision precision) {
    set_up_precision(precision, c10::DeviceType::CUDA);
    const at::Tensor product = on_gpu(left).matmul(on_gpu(right)).cpu().to(at::kDouble);
    return product.sub(exact).abs().max().item<double>() / exact.abs().max().item<double>();
  };
  EXPECT_LT(error_in(Precision::kFp32), 1e-5);
  const double rounded = error_in(Precision::kTf32);
  EXPECT_GT(rounded, 1e-5) << "a GPU before Ampere has no TF32";
  EXPECT_LT(rounded, 1e-2);
  EXPECT_LT(error_in(Precision::kFp32), 1e-5);
}

}  // namespace
}  // namespace lockstep::replica
