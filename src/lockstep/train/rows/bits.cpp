#include "lockstep/train/rows/bits.h"

namespace lockstep::train {
namespace {

constexpr uint64_t kPrime = 1099511628211ULL;

}  // namespace

void add_bits(uint64_t& hash, const at::Tensor& tensor) {
  const at::Tensor here = tensor.cpu();
  const auto* words = static_cast<const uint32_t*>(here.const_data_ptr());
  const size_t count = here.nbytes() / sizeof(uint32_t);
  for (size_t i = 0; i < count; ++i) hash = (hash ^ words[i]) * kPrime;
}

void add_text(uint64_t& hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  // No character of UTF-8, so that "ab", "c" is not "a", "bc".
  hash = (hash ^ 0xFFU) * kPrime;
}

}  // namespace lockstep::train
