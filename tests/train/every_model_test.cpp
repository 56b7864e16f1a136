#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>

#include "lockstep/base/allocator.h"
#include "lockstep/models/model.h"

#include "strategies/trained_replica.h"

namespace lockstep {
namespace {

/// The networks with the largest layers spend half of their time on fresh pages otherwise.
[[maybe_unused]] const std::string kAllocator = keep_freed_pages();

constexpr int kSteps = 3;

/// One batch again and again.
class SameBatch : public inputs::Input {
 public:
  explicit SameBatch(inputs::Batch batch) : batch_(std::move(batch)) {}
  const inputs::Batch& next() override { return batch_; }

 private:
  inputs::Batch batch_;
};

/// Without the noise of dropout's masks, which are others in every step.
double loss_of(const test::TrainedReplica& replica) {
  const at::NoGradGuard no_grad;
  const inputs::Batch& batch = replica.input->next();
  return models::cross_entropy(replica.model->forward(batch.images, {.dropout = false}), batch.labels)
      .item<double>();
}

class EveryModelTest : public testing::TestWithParam<std::string> {
 protected:
  /// The losses on one batch before and after the steps.
  static std::pair<double, double> train(comm::Communicator& communicator) {
    const models::ModelInfo& info = models::registry().get(GetParam());
    // Below 64 batch norm would be left with two values per channel, which says nothing about the images.
    const auto image_size =
        static_cast<int>(std::clamp<int64_t>(64, info.min_image_size, info.max_image_size));
    test::TrainedReplica replica = test::make_replica({.model = GetParam(),
                                                       .strategy = "ddp",
                                                       .batch = 2,
                                                       .image_size = image_size,
                                                       .learning_rate = 0.001},
                                                      &communicator);
    replica.input = std::make_unique<SameBatch>(replica.input->next());
    const double before = loss_of(replica);
    const train::StepLoopResult result = replica.train(kSteps);
    EXPECT_TRUE(std::isfinite(result.loss_first));
    EXPECT_TRUE(std::isfinite(result.loss_last));
    return {before, loss_of(replica)};
  }
};

TEST_P(EveryModelTest, learns_a_batch_on_two_ranks) {
  std::vector<double> before(2);
  std::vector<double> after(2);
  test::with_thread_ranks(2, [&](comm::Communicator& communicator) {
    const auto rank = static_cast<size_t>(communicator.rank());
    std::tie(before[rank], after[rank]) = train(communicator);
  });
  EXPECT_LT(after[0] + after[1], before[0] + before[1]);
}

INSTANTIATE_TEST_SUITE_P(All, EveryModelTest, testing::ValuesIn(models::registry().names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace lockstep
