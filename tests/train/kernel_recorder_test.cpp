#include "lockstep/train/step/kernel_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/rand.h>

#include "lockstep/base/clock.h"

namespace lockstep::train {
namespace {

using testing::Contains;
using testing::Field;
using testing::Not;

// On the CPU, whose operations LibTorch's profiler records in the kernels' place.
TEST(KernelRecorderTest, spans_are_on_the_clock_that_steps_are_stamped_with) {
  const at::Tensor factor = at::rand({256, 256});
  KernelRecorder recorder(c10::Device(c10::DeviceType::CPU));
  const double begin_s = now_s();
  at::Tensor product = factor;
  for (int i = 0; i < 5; ++i) product = product.matmul(factor);
  const double end_s = now_s();
  const std::vector<measure::KernelSpan> spans = recorder.finish();
  int products = 0;
  double last_s = 0;
  for (const measure::KernelSpan& span : spans) {
    products += span.name == "aten::mm" ? 1 : 0;
    EXPECT_GE(span.begin_s, begin_s - 1e-4) << span.name;
    EXPECT_LE(span.end_s, end_s + 1e-4) << span.name;
    EXPECT_LT(span.begin_s, span.end_s) << span.name;
    EXPECT_GE(span.begin_s, last_s) << "not in order: " << span.name;
    last_s = span.begin_s;
  }
  EXPECT_EQ(products, 5);
}

TEST(KernelRecorderTest, one_that_was_given_up_leaves_nothing_to_the_next) {
  const at::Tensor factor = at::rand({64, 64});
  {
    const KernelRecorder given_up(c10::Device(c10::DeviceType::CPU));
    factor.matmul(factor);
  }
  KernelRecorder recorder(c10::Device(c10::DeviceType::CPU));
  factor.add(factor);
  const std::vector<measure::KernelSpan> spans = recorder.finish();
  EXPECT_THAT(spans, Contains(Field(&measure::KernelSpan::name, "aten::add")));
  EXPECT_THAT(spans, Not(Contains(Field(&measure::KernelSpan::name, "aten::mm"))));
}

}  // namespace
}  // namespace lockstep::train
