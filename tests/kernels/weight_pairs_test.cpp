// The own loops for bf16 weights make what oneDNN's reorder makes.

#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <ATen/ops/randn.h>

#include "lockstep/kernels/onednn/engine.h"
#include "lockstep/kernels/onednn/instruction_set.h"

namespace lockstep::kernels::onednn {
namespace {

using dnnl::memory;
using tag = memory::format_tag;

class WeightPairs : public testing::TestWithParam<tag> {
 protected:
  static memory::desc narrow(const memory::dims& sizes, tag layout) {
    return {sizes, memory::data_type::bf16, layout};
  }
  static memory::desc parameter(const memory::dims& sizes) {
    return {sizes, memory::data_type::f32, tag::acdb};
  }
};

void expect_what_a_reorder_makes(const memory::dims& sizes, const memory::desc& into) {
  const memory::desc parameter(sizes, memory::data_type::f32, tag::acdb);
  at::Tensor values = at::randn(sizes).contiguous(at::MemoryFormat::ChannelsLast);
  // Halfway between two of bf16, and what is no number.
  values[0][0][0][0] = 1.00390625;
  values[1][1][0][0] = 1.01171875;
  values[2][3][0][0] = std::numeric_limits<float>::quiet_NaN();
  values[3][2][0][0] = std::numeric_limits<float>::infinity();
  const memory from = memory_of(parameter, values);
  // What fills up a block is made, too.
  const at::Tensor found = allocate(into).fill_(77);
  make_pairs(from, memory_of(into, found));
  const at::Tensor wanted = allocate(into).fill_(88);
  const dnnl::reorder::primitive_desc reorder(engine(), parameter, engine(), into, user_scratchpad());
  run(dnnl::reorder(reorder), reorder.scratchpad_desc(),
      {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, memory_of(into, wanted)}});
  const auto* bits = static_cast<const uint16_t*>(found.const_data_ptr());
  const auto* wanted_bits = static_cast<const uint16_t*>(wanted.const_data_ptr());
  const size_t count = into.get_size() / sizeof(uint16_t);
  EXPECT_EQ(std::vector<uint16_t>(bits, bits + count),
            std::vector<uint16_t>(wanted_bits, wanted_bits + count));
}

TEST_P(WeightPairs, are_what_a_reorder_makes) {
  at::set_num_threads(1);
  for (const memory::dims& sizes : {memory::dims{32, 48, 3, 3}, {64, 16, 1, 1}, {16, 32, 1, 7}}) {
    const memory::desc into = narrow(sizes, GetParam());
    const bool has_bf16 = instruction_set() == InstructionSet::kAvx512;
    ASSERT_EQ(can_make_pairs(parameter(sizes), into), has_bf16);
    if (has_bf16) expect_what_a_reorder_makes(sizes, into);
  }
}

/// The layouts that oneDNN chooses for images in channels-last; with AVX-512 these are blocks of pairs.
TEST(WeightPairsTest, are_what_a_reorder_makes_for_channels_last) {
  at::set_num_threads(1);
  const auto bf16 = memory::data_type::bf16;
  int made = 0;
  for (const memory::dims& sizes : {memory::dims{64, 64, 3, 3},
                                    {96, 64, 1, 1},
                                    {64, 96, 1, 1},
                                    {112, 48, 3, 3},
                                    {512, 2048, 1, 1},
                                    {2048, 512, 1, 1},
                                    {16, 16, 3, 3}}) {
    const memory::desc any(sizes, bf16, tag::any), x({2, sizes[1], 7, 7}, bf16, tag::nhwc);
    const memory::dims padding{sizes[2] / 2, sizes[3] / 2};
    const memory::desc y({2, sizes[0], 7, 7}, bf16, tag::nhwc);
    try {
      const dnnl::convolution_forward::primitive_desc forward(
          engine(), dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, x, any,
          memory::desc(), y, {1, 1}, padding, padding, user_scratchpad());
      const dnnl::convolution_backward_data::primitive_desc backward(
          engine(), dnnl::algorithm::convolution_direct, x, any, y, {1, 1}, padding, padding, forward,
          user_scratchpad());
      for (const memory::desc& into : {forward.weights_desc(), backward.weights_desc()}) {
        if (!can_make_pairs({sizes, memory::data_type::f32, tag::acdb}, into)) continue;
        ++made;
        expect_what_a_reorder_makes(sizes, into);
      }
    } catch (const dnnl::error& error) {
      EXPECT_EQ(error.status, dnnl_unimplemented);
    }
  }
  const bool computes_bf16 = version_and_instructions().find("avx512_core_") != std::string::npos &&
                             version_and_instructions().find("vnni") == std::string::npos;
  EXPECT_EQ(made, computes_bf16 ? 14 : made);
}

INSTANTIATE_TEST_SUITE_P(Layouts, WeightPairs,
                         testing::Values(tag::OIhw8i16o2i, tag::OIhw8o16i2o, tag::IOhw8o16i2o));

TEST(WeightPairsTest, leave_to_oneDNN_what_they_do_not_know) {
  const memory::dims sizes{32, 48, 3, 3};
  const memory::desc pairs(sizes, memory::data_type::bf16, tag::OIhw8i16o2i);
  const memory::desc last(sizes, memory::data_type::f32, tag::acdb);
  EXPECT_FALSE(can_make_pairs({sizes, memory::data_type::f32, tag::abcd}, pairs));
  EXPECT_FALSE(can_make_pairs({sizes, memory::data_type::bf16, tag::acdb}, pairs));
  EXPECT_FALSE(can_make_pairs(last, {sizes, memory::data_type::bf16, tag::OIhw16i16o}));
  EXPECT_FALSE(can_make_pairs(last, {sizes, memory::data_type::f32, tag::OIhw16i16o}));
  const memory::dims odd{40, 24, 3, 3};
  EXPECT_FALSE(can_make_pairs({odd, memory::data_type::f32, tag::acdb},
                              {odd, memory::data_type::bf16, tag::OIhw8i16o2i}));
}

}  // namespace
}  // namespace lockstep::kernels::onednn
