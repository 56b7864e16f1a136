#include "lockstep/kernels/image_layout.h"

#include <algorithm>

#include <ATen/ops/cat.h>

#include "lockstep/kernels/onednn/instruction_set.h"

namespace lockstep::kernels {

int64_t channels_per_block() {
  static const int64_t channels = onednn::instruction_set() >= onednn::InstructionSet::kAvx512 ? 16 : 8;
  return channels;
}

int64_t channels_of(const at::Tensor& image) {
  return is_blocked(image) ? image.size(1) * image.size(4) : image.size(1);
}

bool can_block(int64_t channels) {
  return channels % channels_per_block() == 0;
}

at::Tensor to_plain(const at::Tensor& x) {
  if (!is_blocked(x)) return x;
  return x.permute({0, 2, 3, 1, 4})
      .reshape({x.size(0), x.size(2), x.size(3), channels_of(x)})
      .permute({0, 3, 1, 2});
}

at::Tensor to_blocked(const at::Tensor& x) {
  if (is_blocked(x)) return x;
  const int64_t block = channels_per_block();
  return x.unflatten(1, {x.size(1) / block, block}).permute({0, 1, 3, 4, 2}).contiguous();
}

at::Tensor concatenate(const std::vector<at::Tensor>& images) {
  const bool blocked =
      std::ranges::any_of(images, is_blocked) &&
      std::ranges::all_of(images, [](const at::Tensor& x) { return can_block(channels_of(x)); });
  if (std::ranges::none_of(images, is_blocked)) return at::cat(images, 1);
  std::vector<at::Tensor> alike;
  for (const at::Tensor& image : images) alike.push_back(blocked ? to_blocked(image) : to_plain(image));
  return at::cat(alike, 1);
}

at::Tensor flatten_image(const at::Tensor& image) {
  return to_plain(image).flatten(1);
}

}  // namespace lockstep::kernels
