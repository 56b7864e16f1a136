#include <gtest/gtest.h>

#include <ATen/ops/rand.h>

#include "lockstep/kernels/conv_bn.h"

namespace lockstep::kernels {
namespace {

class BatchCountTest : public testing::Test {
 protected:
  void forward(const Context& context) {
    const at::Tensor x = at::rand({2, 3, 4, 4});
    second_(first_(x, {}, context).path, {}, context);
  }

  std::vector<int64_t> counts() const {
    std::vector<int64_t> counts;
    for (const replica::NamedTensor& buffer : parameters_.buffers()) {
      if (buffer.value.scalar_type() == at::kLong) counts.push_back(buffer.value.item<int64_t>());
    }
    return counts;
  }

  replica::Parameters parameters_{1, at::MemoryFormat::Contiguous};
  BatchNorm first_{parameters_, "first", 3, 1e-5};
  BatchNorm second_{parameters_, "second", 3, 1e-5};
};

TEST_F(BatchCountTest, every_layer_counts_the_batches_that_it_was_trained_with) {
  for (int i = 0; i < 3; ++i) forward({});
  forward({.training = false});
  EXPECT_EQ(counts(), (std::vector<int64_t>{3, 3}));
}

TEST_F(BatchCountTest, counters_that_are_asked_for_are_raised_by_who_asked) {
  std::vector<at::Tensor> counters;
  forward({.batch_counters = &counters});
  EXPECT_EQ(counts(), (std::vector<int64_t>{0, 0}));
  count_batch(counters);
  EXPECT_EQ(counts(), (std::vector<int64_t>{1, 1}));
  counters.clear();
  forward({.training = false, .batch_counters = &counters});
  count_batch(counters);
  EXPECT_EQ(counts(), (std::vector<int64_t>{1, 1}));
}

}  // namespace
}  // namespace lockstep::kernels
