#include <algorithm>

#include <ATen/Parallel.h>

#include "lockstep/kernels/lanes.h"
#include "lockstep/kernels/onednn/engine.h"
#include "lockstep/kernels/onednn/instruction_set.h"

// Packs the weights of a convolution for oneDNN's bf16 primitives on a processor with AVX-512: blocks of
// channels, with pairs of the channels that are summed over, because the instructions multiply and add pairs
// (OIhw8i16o2i forward; OIhw8o16i2o and IOhw8o16i2o for the gradient of the input; for images in
// channels-last larger blocks of the same kind, such as 16i64o2i with AMX, and 48o2i, a pair alone, without).
// From a parameter in channels last, oneDNN's own reorder reaches 6 to 17 GB/s, and took 3 % of a bf16 step
// of ResNet-50 (docs/dev/cpu-speed.md).

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

/// Pairs in a block and words of each pair: 8 and 16 of 8i16o2i, 1 and 48 of 48o2i.
struct Block {
  int64_t pairs, words;
};

Block block_of(const memory::desc& weights) {
  const memory::dims sizes = weights.get_inner_blks();
  return sizes.size() == 2 ? Block{1, sizes[0]} : Block{sizes[0], sizes[1]};
}

Paired pairs_of(const memory::desc& weights) {
  const memory::dims sizes = weights.get_inner_blks();
  memory::dims of = weights.get_inner_idxs();
  if ((sizes.size() != 2 && sizes.size() != 3) || sizes.back() != 2) return Paired::kNone;
  const Block block = block_of(weights);
  if ((block.pairs != 1 && block.pairs % kPairs != 0) || block.words % kBlock != 0) return Paired::kNone;
  if (of.size() == 2) of.insert(of.begin(), of.back());
  if (of == memory::dims{0, 1, 0}) return Paired::kOutputs;
  if (of == memory::dims{1, 0, 1}) return Paired::kInputs;
  return Paired::kNone;
}

/// Packs 16 rows (output channels) of 16 adjacent values (input channels), with `words_per_pair` from one
/// pair to the next: pairs are the same column of two rows.
LOCKSTEP_AVX512 void pair_outputs(const float* from, int64_t row_stride, uint32_t* into,
                                  int64_t words_per_pair) {
  for (int pair = 0; pair < kPairs; ++pair) {
    const float* const even = from + 2 * pair * row_stride;
    const Words words =
        to_bf16<kBlock>(load<kBlock>(even)) | (to_bf16<kBlock>(load<kBlock>(even + row_stride)) << 16);
    __builtin_memcpy(into + pair * words_per_pair, &words, sizeof(words));
  }
}

/// The same with pairs of adjacent values. The output is transposed, so rows are rounded first and then
/// read by columns.
LOCKSTEP_AVX512 void pair_inputs(const float* from, int64_t row_stride, uint32_t* into,
                                 int64_t words_per_pair) {
  uint16_t rows[kBlock][kBlock];
  for (int row = 0; row < kBlock; ++row) store<kBlock>(load<kBlock>(from + row * row_stride), rows[row]);
  for (int pair = 0; pair < kPairs; ++pair) {
    Words words;
    for (int row = 0; row < kBlock; ++row)
      words[row] = rows[row][2 * pair] | uint32_t{rows[row][2 * pair + 1]} << 16;
    __builtin_memcpy(into + pair * words_per_pair, &words, sizeof(words));
  }
}

/// The same for channels that only fill up a block.
void pair_nothing(uint32_t* into, int64_t words_per_pair) {
  for (int pair = 0; pair < kPairs; ++pair) std::fill_n(into + pair * words_per_pair, kBlock, uint32_t{0});
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
  const bool outputs_paired = pairs_of(into.get_desc()) == Paired::kOutputs;
  const auto make = outputs_paired ? pair_outputs : pair_inputs;
  const Block block = block_of(into.get_desc());
  const int64_t channels_of_pairs = 2 * block.pairs;
  const int64_t of_summed = written[outputs_paired ? 0 : 1], of_other = written[outputs_paired ? 1 : 0];
  const int64_t words_per_pair = block.pairs == 1 ? of_summed / 2 : block.words;
  // Values from the start of a kernel's pixel to the 16 x 16 weights that begin with these channels.
  const auto place = [&](int64_t output, int64_t input) {
    const int64_t summed = outputs_paired ? output : input, other = outputs_paired ? input : output;
    return summed / channels_of_pairs * of_summed + summed % channels_of_pairs * block.words +
           other / block.words * of_other + other % block.words * 2;
  };
  const auto* const source = static_cast<const float*>(from.get_data_handle());
  auto* const target = static_cast<uint16_t*>(into.get_data_handle());
  const int64_t height = sizes[2];
  const int64_t width = sizes[3];
  // Input channels are the innermost loop, because they are adjacent in the parameter.
  const memory::dims filled = into.get_desc().get_padded_dims();
  at::parallel_for(0, filled[0] / kBlock * height * width, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t output = i / (height * width) * kBlock;
      const int64_t h = i / width % height;
      const int64_t w = i % width;
      const float* const rows = source + output * read[0] + h * read[2] + w * read[3];
      uint16_t* const pixel = target + h * written[2] + w * written[3];
      for (int64_t input = 0; input < filled[1]; input += kBlock) {
        auto* const block_of_16 = reinterpret_cast<uint32_t*>(pixel + place(output, input));
        if (output < sizes[0] && input < sizes[1]) {
          make(rows + input, read[0], block_of_16, words_per_pair);
        } else {
          pair_nothing(block_of_16, words_per_pair);
        }
      }
    }
  });
}

}  // namespace lockstep::kernels::onednn
