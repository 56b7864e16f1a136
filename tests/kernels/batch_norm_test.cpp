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

TEST_F(BatchCountTest, all_layers_count_a_batch_at_once) {
  forward({});
  EXPECT_EQ(counts(), (std::vector<int64_t>{0, 0}));
  for (int i = 0; i < 3; ++i) count_batch(parameters_);
  EXPECT_EQ(counts(), (std::vector<int64_t>{3, 3}));
}

}  // namespace
}  // namespace lockstep::kernels
