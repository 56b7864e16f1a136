#include <ATen/Parallel.h>

#include "lockstep/kernels/lanes.h"
#include "lockstep/kernels/onednn/engine.h"
#include "lockstep/kernels/onednn/instruction_set.h"

// Packs the weights of a convolution for oneDNN's bf16 primitives on a processor with AVX-512: blocks of 16 x
// 16 channels, with pairs of the channels that are summed over, because the instructions multiply and add
// pairs (OIhw8i16o2i forward; OIhw8o16i2o and IOhw8o16i2o for the gradient of the input). From a parameter in
// channels last, oneDNN's own reorder reaches 6 to 17 GB/s, and took 3 % of a bf16 step of ResNet-50
// (docs/dev/cpu-speed.md).

namespace lockstep::kernels::onednn {
namespace {

using dnnl::memory;

constexpr int kBlock = 16;
constexpr int kPairs = kBlock / 2;

using Words = Lanes<kBlock>::Words;

/// The channels that are paired: 32-bit words hold the weights of two neighboring output or input channels.
///
///     pair_outputs   word [p][i] = weight(output 2p, input i), weight(output 2p + 1, input i)
///     pair_inputs    word [p][o] = weight(output o, input 2p), weight(output o, input 2p + 1)
enum class Paired { kNone, kOutputs, kInputs };

Paired pairs_of(const memory::desc& weights) {
  if (weights.get_inner_blks() != memory::dims{kPairs, kBlock, 2}) return Paired::kNone;
  if (weights.get_inner_idxs() == memory::dims{0, 1, 0}) return Paired::kOutputs;
  if (weights.get_inner_idxs() == memory::dims{1, 0, 1}) return Paired::kInputs;
  return Paired::kNone;
}

/// Packs one block of 16 rows (output channels) of 16 adjacent values (input channels): pairs are the same
/// column of two rows.
LOCKSTEP_AVX512 void pair_outputs(const float* from, int64_t row_stride, uint32_t* into) {
  for (int pair = 0; pair < kPairs; ++pair) {
    const float* const even = from + 2 * pair * row_stride;
    const Words words =
        to_bf16<kBlock>(load<kBlock>(even)) | (to_bf16<kBlock>(load<kBlock>(even + row_stride)) << 16);
    __builtin_memcpy(into + pair * kBlock, &words, sizeof(words));
  }
}

/// The same block with pairs of adjacent values. The output is transposed, so rows are rounded first and then
/// read by columns.
LOCKSTEP_AVX512 void pair_inputs(const float* from, int64_t row_stride, uint32_t* into) {
  uint16_t rows[kBlock][kBlock];
  for (int row = 0; row < kBlock; ++row) store<kBlock>(load<kBlock>(from + row * row_stride), rows[row]);
  for (int pair = 0; pair < kPairs; ++pair) {
    Words words;
    for (int row = 0; row < kBlock; ++row)
      words[row] = rows[row][2 * pair] | uint32_t{rows[row][2 * pair + 1]} << 16;
    __builtin_memcpy(into + pair * kBlock, &words, sizeof(words));
  }
}

}  // namespace

bool can_make_pairs(const memory::desc& from, const memory::desc& into) {
  if (instruction_set() != InstructionSet::kAvx512) return false;
  const memory::dims sizes = from.get_dims();
  return sizes.size() == 4 && sizes == into.get_dims() && sizes[0] % kBlock == 0 && sizes[1] % kBlock == 0 &&
         from.get_data_type() == memory::data_type::f32 && from.get_inner_nblks() == 0 &&
         from.get_strides()[1] == 1 && into.get_data_type() == memory::data_type::bf16 &&
         pairs_of(into) != Paired::kNone;
}

void make_pairs(const memory& from, const memory& into) {
  const memory::dims sizes = from.get_desc().get_dims();
  const memory::dims read = from.get_desc().get_strides();
  const memory::dims written = into.get_desc().get_strides();
  const auto make = pairs_of(into.get_desc()) == Paired::kOutputs ? pair_outputs : pair_inputs;
  const auto* const source = static_cast<const float*>(from.get_data_handle());
  auto* const target = static_cast<uint16_t*>(into.get_data_handle());
  const int64_t height = sizes[2];
  const int64_t width = sizes[3];
  // Input channels are the innermost loop, because they are adjacent in the parameter.
  at::parallel_for(0, sizes[0] / kBlock * height * width, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t outputs = i / (height * width);
      const int64_t h = i / width % height;
      const int64_t w = i % width;
      const float* const rows = source + outputs * kBlock * read[0] + h * read[2] + w * read[3];
      uint16_t* const blocks = target + outputs * written[0] + h * written[2] + w * written[3];
      for (int64_t inputs = 0; inputs < sizes[1] / kBlock; ++inputs)
        make(rows + inputs * kBlock, read[0], reinterpret_cast<uint32_t*>(blocks + inputs * written[1]));
    }
  });
}

}  // namespace lockstep::kernels::onednn
