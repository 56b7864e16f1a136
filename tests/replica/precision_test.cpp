#include "lockstep/replica/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>

#include "lockstep/base/error.h"

namespace lockstep::replica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(PrecisionTest, a_device_says_which_it_knows) {
  EXPECT_THAT(precision_names(), ElementsAre("fp32", "tf32", "bf16", "bf16_pure", "fp16"));
  EXPECT_THAT(precision_names(c10::DeviceType::CUDA),
              ElementsAre("fp32", "tf32", "bf16", "bf16_pure", "fp16"));
  EXPECT_THAT(precision_names(c10::DeviceType::CPU), ElementsAre("fp32", "bf16"));
  for (const std::string& name : precision_names(c10::DeviceType::CPU)) {
    check_precision(name, c10::DeviceType::CPU);
  }
  for (const std::string& name : precision_names()) check_precision(name, c10::DeviceType::CUDA);
}

TEST(PrecisionTest, one_that_the_device_does_not_know_is_refused_with_those_that_it_does) {
  for (const char* name : {"tf32", "bf16_pure", "fp16"}) {
    try {
      check_precision(name, c10::DeviceType::CPU);
      ADD_FAILURE() << name;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr(std::string("--precision ") + name + " needs a GPU"));
      EXPECT_THAT(error.what(), HasSubstr("--device is cpu"));
      EXPECT_THAT(error.advice(), HasSubstr("fp32, bf16"));
    }
  }
  EXPECT_THROW(check_precision("bf17", c10::DeviceType::CUDA), ConfigError);
}

TEST(PrecisionTest, says_how_wide_numbers_are_and_which_need_a_scaled_loss) {
  EXPECT_EQ(bytes_per_number(Precision::kTf32), 4);
  EXPECT_EQ(bytes_per_number(Precision::kFp16), 2);
  EXPECT_TRUE(needs_loss_scale(Precision::kFp16));
  EXPECT_FALSE(needs_loss_scale(Precision::kBf16));
  EXPECT_TRUE(keeps_weight_copies(Precision::kBf16Pure));
  EXPECT_FALSE(keeps_weight_copies(Precision::kBf16));
}

TEST(PrecisionTest, tf32_is_allowed_where_it_is_asked_for_and_nowhere_else) {
  // LibTorch keeps these switches with or without a GPU, and checks when it reads them that old and new ones
  // agree.
  const at::Context& context = at::globalContext();
  for (const Precision precision :
       {Precision::kTf32, Precision::kFp32, Precision::kTf32, Precision::kBf16, Precision::kFp16}) {
    testing::internal::CaptureStderr();
    set_up_precision(precision, c10::DeviceType::CUDA);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    const bool tf32 = precision == Precision::kTf32;
    EXPECT_EQ(context.allowTF32CuBLAS(), tf32);
    EXPECT_EQ(context.allowTF32CuDNN(), tf32);
    EXPECT_EQ(context.allowTF32CuDNN(at::Float32Op::CONV), tf32);
    EXPECT_EQ(context.float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL) ==
                  at::Float32Precision::TF32,
              tf32);
    EXPECT_TRUE(context.benchmarkCuDNN());
  }
}

TEST(PrecisionTest, algorithms_are_the_fastest_or_give_the_same_bits_again) {
  const at::Context& context = at::globalContext();
  for (const Algorithms algorithms : {Algorithms::kRepeatable, Algorithms::kFastest}) {
    set_up_precision(Precision::kFp32, c10::DeviceType::CUDA, algorithms);
    EXPECT_EQ(context.benchmarkCuDNN(), algorithms == Algorithms::kFastest);
    EXPECT_EQ(context.deterministicCuDNN(), algorithms == Algorithms::kRepeatable);
  }
}

TEST(PrecisionTest, autocast_is_that_of_the_device_and_ends_with_the_scope) {
  at::set_num_threads(1);
  const at::Tensor images = at::rand({4, 8});
  const at::Tensor weight = at::rand({3, 8});
  {
    const AutocastScope scope(Precision::kBf16, c10::DeviceType::CPU);
    EXPECT_EQ(at::linear(images, weight).scalar_type(), at::kBFloat16);
  }
  EXPECT_EQ(at::linear(images, weight).scalar_type(), at::kFloat);
  {
    // A GPU's autocast leaves a CPU's tensors alone.
    const AutocastScope scope(Precision::kFp16, c10::DeviceType::CUDA);
    EXPECT_EQ(at::linear(images, weight).scalar_type(), at::kFloat);
  }
}

}  // namespace
}  // namespace lockstep::replica
