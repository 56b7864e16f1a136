// The passes of a normalization at 200 random shapes, in every number format, against LibTorch.

#include <random>

#include <gtest/gtest.h>

#include "cuda_kernels/host_kernels.h"
#include "cuda_kernels/norm_run.h"

namespace lockstep::cuda_kernels {
namespace {

constexpr int kShapes = 200;
constexpr int64_t kMostValues = 5000;

/// Shapes of all kinds; of the channels, two thirds are no multiple of eight.
NormCase random_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto upto = [&](int most) {
    return static_cast<int64_t>(random() % static_cast<unsigned>(most) + 1);
  };
  NormCase own{.batch = upto(4), .height = upto(12), .width = upto(12), .seed = seed};
  switch (seed % 3) {
    case 0:
      own.channels = kGroup * upto(80);
      break;
    case 1:
      own.channels = upto(30);
      break;
    default:
      own.channels = upto(700);
  }
  while (own.rows() * own.channels > kMostValues)
    own.batch > 1 ? --own.batch : own.height > 1 ? --own.height : --own.width;
  own.relu = random() % 4 != 0;
  own.residual = random() % 2 == 0;
  own.forks = random() % 2 == 0;
  if (random() % 3 == 0) own.shift = static_cast<int>(upto(7));
  own.shifted = static_cast<int>(random() % (NormCase::kAllImages + 1));
  return own;
}

TEST(NormShapesTest, forward_and_backward_agree_with_libtorch) {
  for (unsigned seed = 1; seed <= kShapes; ++seed) {
    NormCase own = random_case(seed);
    // As many blocks as on a GPU, one, and in between.
    set_host_gpu({.processors = seed % 5 == 0 ? 132 : static_cast<int>(seed % 5), .shuffle = seed});
    for (const Number number : {Number::kFloat, Number::kBf16, Number::kHalf}) {
      own.number = number;
      SCOPED_TRACE(testing::Message() << own);
      NormRun run(own);
      run.run();
      run.expect_like_torch();
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace lockstep::cuda_kernels
